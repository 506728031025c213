#include "graveyard.h"

#include "block.h"
#include "finding.h"

#include <string.h>

enum { GRAVES = 4096 };

struct grave {
    uint64_t address, size, id; /* id 0: nobody */
    enum sim_block_kind kind;
    struct sim_trace made, freed;
};

/* By address; a later death takes the place of an earlier one. */
static struct grave graves[GRAVES];

static struct grave *place(uint64_t address)
{
    return &graves[(address >> 9) * 0x9e3779b97f4a7c15ull >> 52];
}

void sim_graveyard_bury(const struct sim_block *b)
{
    *place(b->range.start) = (struct grave){ b->range.start, b->size, b->id, b->kind, b->made, b->freed };
}

/* Did the block go with its context, and not by a call about itself? */
static bool went_with_context(enum sim_fn fn)
{
    const char *symbol = fn < SIM_FN_COUNT ? sim_entries[fn].symbol : "";
    return strncmp(symbol, "cuCtx", 5) == 0 || strncmp(symbol, "cuDevicePrimary", 15) == 0 ||
           strncmp(symbol, "cuGreenCtx", 10) == 0;
}

void sim_graveyard_accuse(uint64_t address)
{
    const struct grave *g = place(address);
    if (!address) return;
    if (g->address != address) {
        sim_find_call(SIM_FINDING_bad_free, NULL, address);
        return;
    }
    sim_find_grave(went_with_context(g->freed.fn) ? SIM_FINDING_free_after_context : SIM_FINDING_double_free, address,
                   g->size, g->made, g->freed);
}

/* The latest block that had the address, also inside it. */
static const struct grave *containing(uint64_t address)
{
    const struct grave *latest = NULL;
    for (const struct grave *g = graves; g < graves + GRAVES; g++)
        if (g->id && address - g->address < g->size && (!latest || latest->id < g->id)) latest = g;
    return latest;
}

bool sim_graveyard_accuse_use(uint64_t address)
{
    const struct grave *g = containing(address);
    if (!g) return false;
    sim_find_grave(g->kind == SIM_BLOCK_MAP ? SIM_FINDING_use_after_unmap : SIM_FINDING_use_after_free, g->address,
                   g->size, g->made, g->freed);
    return true;
}
