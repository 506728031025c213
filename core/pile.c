#include "pile.h"

#include <string.h>

#include "mem.h"

/* Maps it if nobody has. NULL: no memory. */
static char *piece_of(struct nxm_pile *pile, uint64_t number)
{
    char *piece = atomic_load_explicit(&pile->pieces[number], memory_order_acquire), *made;

    if (piece != NULL)
        return piece;
    made = nxm_mem_map_kept(NXM_PILE_PIECE);
    if (made == NULL || atomic_compare_exchange_strong(&pile->pieces[number], &piece, made))
        return made;
    nxm_mem_unmap(made, NXM_PILE_PIECE);
    return piece;
}

void *nxm_pile_take(struct nxm_pile *pile, size_t bytes)
{
    uint64_t used = atomic_load(&pile->used), number, at;
    char *piece;

    bytes = (bytes + 7) & ~(size_t)7;
    if (bytes > NXM_PILE_PIECE)
        return NULL;
    do {
        at = used;
        if (bytes > NXM_PILE_PIECE - at % NXM_PILE_PIECE) /* the rest of the piece stays unused */
            at += NXM_PILE_PIECE - at % NXM_PILE_PIECE;
        number = at / NXM_PILE_PIECE;
        if (number >= pile->pieces_max || number >= NXM_PILE_PIECES_MAX)
            return NULL;
    } while (!atomic_compare_exchange_weak(&pile->used, &used, at + bytes));
    piece = piece_of(pile, number);
    return piece == NULL ? NULL : piece + at % NXM_PILE_PIECE;
}

static uint32_t hash(const char *s)
{
    uint32_t h = 2166136261u; /* FNV-1a */

    for (; *s != '\0'; s++)
        h = (h ^ (unsigned char)*s) * 16777619u;
    return h;
}

static _Atomic(const char *) *slots_of(struct nxm_strings *strings)
{
    const size_t bytes = NXM_STRINGS_SLOTS * sizeof(_Atomic(const char *));
    _Atomic(const char *) *slots = atomic_load_explicit(&strings->slots, memory_order_acquire), *made;

    if (slots != NULL)
        return slots;
    made = nxm_mem_map_kept(bytes);
    if (made == NULL || atomic_compare_exchange_strong(&strings->slots, &slots, made))
        return made;
    nxm_mem_unmap(made, bytes);
    return slots;
}

static const char *copy_of(struct nxm_strings *strings, const char *s)
{
    size_t bytes = strlen(s) + 1;
    char *copy = NULL;

    if (atomic_load(&strings->used) < NXM_STRINGS_SLOTS / 4 * 3) /* an empty slot ends every search */
        copy = nxm_pile_take(&strings->pile, bytes);
    return copy == NULL ? NULL : memcpy(copy, s, bytes);
}

const char *nxm_strings_intern(struct nxm_strings *strings, const char *s)
{
    _Atomic(const char *) *slots = slots_of(strings);
    const char *copy = NULL, *there;

    if (slots == NULL)
        return NULL;
    for (uint32_t at = hash(s) % NXM_STRINGS_SLOTS;; at = (at + 1) % NXM_STRINGS_SLOTS) {
        there = atomic_load_explicit(&slots[at], memory_order_acquire);
        if (there == NULL) {
            if (copy == NULL && (copy = copy_of(strings, s)) == NULL)
                return NULL;
            if (atomic_compare_exchange_strong(&slots[at], &there, copy)) {
                atomic_fetch_add(&strings->used, 1);
                return copy;
            }
        }
        if (strcmp(there, s) == 0) /* another thread's, perhaps of just now: our copy is lost */
            return there;
    }
}
