/* Memory that is given out upwards and never taken back, and strings interned in it: one copy of each, at an
 * address that never moves, so that equal strings have equal pointers. Owns the memory, for the life of the
 * process; bounded. Any thread, no lock: where two are at it at once, both get memory, and one copy of a string wins.
 */
#ifndef NXM_PILE_H
#define NXM_PILE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define NXM_PILE_PIECE (256u << 10)
#define NXM_PILE_PIECES_MAX 128u

struct nxm_pile {
    _Atomic(char *) pieces[NXM_PILE_PIECES_MAX]; /* mapped when first needed */
    _Atomic uint64_t used;                       /* bytes of all pieces together; what has no room in one goes to the next */
    unsigned pieces_max;                         /* never more than that */
};

#define NXM_PILE_INIT(max) { .pieces_max = (max) }

/* Zero-filled, aligned to 8, at most NXM_PILE_PIECE bytes. NULL: the bound or the system's memory is reached. */
void *nxm_pile_take(struct nxm_pile *pile, size_t bytes);

#define NXM_STRINGS_SLOTS (1u << 16)

struct nxm_strings {
    struct nxm_pile pile;
    _Atomic(_Atomic(const char *) *) slots; /* open addressing, NXM_STRINGS_SLOTS of them */
    _Atomic uint32_t used;
};

#define NXM_STRINGS_INIT(max) { .pile = NXM_PILE_INIT(max) }

const char *nxm_strings_intern(struct nxm_strings *strings, const char *s); /* NULL: no room */

#endif
