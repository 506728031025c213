#include "pile.h"

#include <string.h>

#include "mem.h"

void *nxm_pile_take(struct nxm_pile *pile, size_t bytes)
{
    void *taken;

    bytes = (bytes + 7) & ~(size_t)7;
    if (bytes > NXM_PILE_PIECE)
        return NULL;
    if (pile->piece == NULL || bytes > NXM_PILE_PIECE - pile->used) {
        char *piece = pile->pieces < pile->pieces_max ? nxm_mem_map(NXM_PILE_PIECE) : NULL;

        if (piece == NULL)
            return NULL;
        pile->piece = piece; /* the old one stays: what lies in it is in use for ever */
        pile->used = 0;
        pile->pieces++;
    }
    taken = pile->piece + pile->used;
    pile->used += bytes;
    return taken;
}

static uint32_t hash(const char *s)
{
    uint32_t h = 2166136261u; /* FNV-1a */

    for (; *s != '\0'; s++)
        h = (h ^ (unsigned char)*s) * 16777619u;
    return h;
}

const char *nxm_strings_intern(struct nxm_strings *strings, const char *s)
{
    size_t length = strlen(s);
    uint32_t at;
    char *copy;

    if (strings->slots == NULL) {
        strings->slots = nxm_mem_map(NXM_STRINGS_SLOTS * sizeof *strings->slots);
        if (strings->slots == NULL)
            return NULL;
    }
    for (at = hash(s) % NXM_STRINGS_SLOTS; strings->slots[at] != NULL; at = (at + 1) % NXM_STRINGS_SLOTS) {
        if (strcmp(strings->slots[at], s) == 0)
            return strings->slots[at];
    }
    if (strings->used >= NXM_STRINGS_SLOTS / 4 * 3) /* an empty slot ends every search */
        return NULL;
    copy = nxm_pile_take(&strings->pile, length + 1);
    if (copy == NULL)
        return NULL;
    memcpy(copy, s, length + 1);
    strings->slots[at] = copy;
    strings->used++;
    return copy;
}
