#include "block.h"

#include "finding.h"
#include "graveyard.h"
#include "ipc.h"
#include "state.h"

#include <stdlib.h>

static struct sim_ranges map;
static uint64_t counts[SIM_BLOCK_KINDS], bytes[SIM_BLOCK_KINDS];
static uint64_t last_id;

struct sim_block *sim_block_new(enum sim_block_kind kind, uint64_t start, uint64_t span, uint64_t size,
                                enum sim_fn born)
{
    struct sim_block *b = calloc(1, sizeof *b);
    if (!b) return NULL;
    b->range.start = start;
    b->range.size = span;
    b->kind = kind;
    b->host_sees = kind == SIM_BLOCK_HOST || kind == SIM_BLOCK_REGISTERED || kind == SIM_BLOCK_MANAGED ||
                   kind == SIM_BLOCK_IPC || kind == SIM_BLOCK_EXTERNAL;
    b->state = SIM_LIVE;
    b->mapped = true;
    b->refs = 1;
    b->size = size;
    b->id = ++last_id;
    b->made = sim_trace_of(born);
    b->freed.fn = SIM_FN_COUNT;
    counts[kind]++;
    bytes[kind] += size;
    sim_range_insert(&map, &b->range);
    return b;
}

struct sim_block *sim_block_containing(uint64_t address)
{
    return (struct sim_block *)sim_range_containing(&map, address);
}

struct sim_block *sim_block_at(uint64_t address)
{
    struct sim_block *b = sim_block_containing(address);
    return b && b->range.start == address ? b : NULL;
}

struct sim_block *sim_block_next(uint64_t address)
{
    return (struct sim_block *)sim_range_ceiling(&map, address);
}

struct sim_block *sim_block_mapped_in(uint64_t start, uint64_t size)
{
    struct sim_block *b = sim_block_containing(start);
    if (!b) b = sim_block_next(start);
    return b && (b->range.start <= start || b->range.start - start < size) ? b : NULL;
}

void sim_block_unmap(struct sim_block *b, enum sim_fn freed)
{
    sim_range_remove(&map, &b->range);
    b->mapped = false;
    b->freed = sim_trace_of(freed);
    sim_graveyard_bury(b);
    counts[b->kind]--;
    bytes[b->kind] -= b->size;
}

void sim_block_settle(const struct sim_block *b)
{
    while (b->accessing) sim_wait_progress();
}

void sim_block_retire(struct sim_block *b)
{
    if (b->running) sim_find_call(SIM_FINDING_free_while_running, b, 0);
    sim_ipc_check_free(b);
    sim_block_settle(b);
    b->state = SIM_GONE_BLOCK;
    sim_block_unref(b);
}

void sim_block_ref(struct sim_block *b)
{
    b->refs++;
}

void sim_block_unref(struct sim_block *b)
{
    if (--b->refs) return;
    if (b->birth.track) sim_track_unref(b->birth.track);
    sim_points_clear(&b->uses);
    free(b);
}

void sim_block_each(void (*visit)(const struct sim_block *, void *), void *arg)
{
    for (struct sim_block *b = sim_block_next(0); b; b = sim_block_next(b->range.start + 1)) visit(b, arg);
}

const char *sim_block_kind_name(enum sim_block_kind kind)
{
    static const char *const names[SIM_BLOCK_KINDS] = { "device", "async", "managed", "graph", "module", "array",
                                                        "host", "registered", "map", "ipc", "external" };
    return names[kind];
}

uint64_t sim_block_count(enum sim_block_kind kind)
{
    return counts[kind];
}

uint64_t sim_block_bytes(enum sim_block_kind kind)
{
    return bytes[kind];
}
