/* A snapshot of what is live: leaked blocks grouped by where they came from, and sums of the same walk, so
 * that every figure of one report agrees with the others while threads go on allocating. Owns the groups;
 * for one thread; takes the tables' locks inside.
 */
#ifndef NXM_LEAKS_H
#define NXM_LEAKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "blocks.h"
#include "suppressions.h"

struct nxm_amount {
    uint64_t blocks, bytes;
};

/* Leaked blocks that share call stack, class, API and device. */
struct nxm_leak_group {
    uint32_t stack;
    int32_t device;
    uint16_t api;
    uint8_t class_;
    bool suppressed;
    uint64_t first_id; /* the oldest block's */
    struct nxm_amount amount;
};

struct nxm_leaks {
    struct nxm_leak_group *groups; /* most bytes first, suppressed ones last; NULL when not grouped */
    size_t group_count;
    size_t places;                 /* groups that are not suppressed */
    bool grouped;                  /* false: there was no memory for it, the sums hold all the same */
    struct nxm_amount leaked;      /* LIVE blocks of classes with `leak`, suppressed ones left out */
    struct nxm_amount suppressed;
    struct nxm_amount waiting;     /* freed by the program, not yet by their owner */
    struct nxm_class_totals classes[NXM_CLASS_COUNT]; /* live as walked; peak and ever as the tables have them */
    size_t capacity;               /* of groups, in entries */
};

/* `suppressions` NULL: none. Never fails: without memory it is not grouped. */
void nxm_leaks_init(struct nxm_leaks *leaks, struct nxm_blocks *const *tables, size_t table_count,
                    const struct nxm_suppressions *suppressions);
void nxm_leaks_clear(struct nxm_leaks *leaks);

#endif
