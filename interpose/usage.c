#include "usage.h"

#include <stdatomic.h>

#include "process.h"
#include "real.h"

/* A look at every block: with more than these the last look stays. */
enum { BLOCKS_MAX = 1 << 16 };

static struct {
    _Atomic int asked;
    _Atomic uint64_t used, recorded;
} devices[NXM_USAGE_DEVICES];

struct sum {
    int device;
    uint64_t bytes;
};

static bool is_device_memory(const struct nxm_block *block)
{
    switch (block->class_) {
    case NXM_CLASS_DEVICE:
    case NXM_CLASS_NATIVE:
    case NXM_CLASS_MANAGED:
    case NXM_CLASS_ARRAY:
    case NXM_CLASS_POOL:
    case NXM_CLASS_GRAPH:
    case NXM_CLASS_VMM_CREATED:
        return true;
    default:
        return false;
    }
}

static bool add_block(void *argument, const struct nxm_block *block)
{
    struct sum *sum = argument;

    if (block->device == sum->device && is_device_memory(block))
        sum->bytes += block->bytes;
    return true;
}

static uint64_t blocks_in(enum nxm_table table)
{
    uint64_t blocks = 0;

    for (int class_ = 0; class_ < NXM_CLASS_COUNT; class_++) {
        struct nxm_class_totals totals;

        nxm_blocks_totals(nxm_table(table), (enum nxm_class)class_, &totals);
        blocks += totals.live_blocks;
    }
    return blocks;
}

void nxm_usage_answered(uint64_t free_bytes, uint64_t total_bytes)
{
    static const enum nxm_table tables[] = { NXM_TABLE_MEMORY, NXM_TABLE_ARRAYS, NXM_TABLE_CREATED };
    CUdevice device = -1;
    struct sum sum = { 0 };

    if (total_bytes < free_bytes || !nxm_real.cuCtxGetDevice || nxm_real.cuCtxGetDevice(&device) != CUDA_SUCCESS || device < 0 ||
        device >= NXM_USAGE_DEVICES)
        return;
    sum.device = device;
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        if (blocks_in(tables[i]) > BLOCKS_MAX)
            return;
        nxm_blocks_each(nxm_table(tables[i]), add_block, &sum);
    }
    struct nxm_device_memory memory = { device, total_bytes - free_bytes, sum.bytes };
    atomic_store(&devices[device].used, memory.used);
    atomic_store(&devices[device].recorded, memory.recorded);
    atomic_store(&devices[device].asked, 1);
    nxm_journal_device_memory(&memory);
}

size_t nxm_usage_list(struct nxm_device_memory *ret_list)
{
    size_t count = 0;

    for (int device = 0; device < NXM_USAGE_DEVICES; device++) {
        if (atomic_load(&devices[device].asked))
            ret_list[count++] = (struct nxm_device_memory){ device, atomic_load(&devices[device].used),
                                                            atomic_load(&devices[device].recorded) };
    }
    return count;
}
