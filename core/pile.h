/* Memory that is given out upwards and never taken back, and strings interned in it: one copy of each, at an
 * address that never moves, so that equal strings have equal pointers. Owns the memory, for the life of the
 * process; bounded. For one thread at a time (the owner's lock); what was given out may be read by all.
 */
#ifndef NXM_PILE_H
#define NXM_PILE_H

#include <stddef.h>
#include <stdint.h>

#define NXM_PILE_PIECE (256u << 10)

struct nxm_pile {
    char *piece;
    size_t used;                 /* of the piece */
    unsigned pieces, pieces_max; /* mapped so far; never more than that */
};

#define NXM_PILE_INIT(max) { NULL, 0, 0, (max) }

/* Zero-filled, aligned to 8, at most NXM_PILE_PIECE bytes. NULL: the bound or the system's memory is reached. */
void *nxm_pile_take(struct nxm_pile *pile, size_t bytes);

#define NXM_STRINGS_SLOTS (1u << 16)

struct nxm_strings {
    struct nxm_pile pile;
    const char **slots; /* open addressing, NXM_STRINGS_SLOTS of them */
    uint32_t used;
};

#define NXM_STRINGS_INIT(max) { NXM_PILE_INIT(max), NULL, 0 }

const char *nxm_strings_intern(struct nxm_strings *strings, const char *s); /* NULL: no room */

#endif
