/* Frees that were refused: what was wrong, where it was done, where the block came from. Owns the first
 * NXM_MISUSES_MAX different ones; the same again is counted. Any thread; takes NXM_RANK_MISUSE inside.
 */
#ifndef NXM_MISUSE_H
#define NXM_MISUSE_H

#include <stddef.h>
#include <stdint.h>

#define NXM_MISUSES_MAX 64

enum nxm_misuse_kind {
    NXM_MISUSE_TWICE,
    NXM_MISUSE_NOT_ALLOCATED,
    NXM_MISUSE_INSIDE,     /* of a block */
    NXM_MISUSE_OTHER_KIND, /* by a call for another kind of memory */
    NXM_MISUSE_PLUGINS,    /* the plugin's own memory */
};

struct nxm_misuse {
    enum nxm_misuse_kind kind;
    uint64_t count;     /* how often, from the same place */
    uint64_t address;   /* of the first */
    uint64_t bytes;     /* of the block, 0 unknown */
    int32_t api;        /* that allocated it, -1 unknown */
    uint32_t stack;     /* of the refused free; 0 none */
    uint32_t allocated; /* where the block was allocated; 0 unknown */
    uint32_t freed;     /* where it had been freed before; 0 unknown */
};

const char *nxm_misuse_words(enum nxm_misuse_kind kind);

/* Equal kinds and stacks are the same misuse. */
void nxm_misuse_note(const struct nxm_misuse *misuse);

/* Copies the first `capacity`; returns how many there are. */
size_t nxm_misuse_list(struct nxm_misuse *ret_list, size_t capacity);

#endif
