/* What a device says about the memory of its graphs. Addresses that graphs hold, and what they gave back and nobody
 * trimmed, are reserved memory; what a launch has allocated is used. */
#include "block.h"
#include "device.h"
#include "state.h"

struct figures {
    const struct sim_device *device;
    uint64_t used, reserved;
};

/* Since the last reset by the program; the peaks are seen when somebody asks. */
static uint64_t used_high[SIM_DEVICES_MAX], reserved_high[SIM_DEVICES_MAX];

static void count(const struct sim_block *b, void *arg)
{
    struct figures *f = arg;
    if (b->kind != SIM_BLOCK_GRAPH || b->device != f->device) return;
    f->reserved += b->range.size;
    if (b->state == SIM_LIVE) f->used += b->range.size;
}

static struct figures figures_of(const struct sim_device *d)
{
    struct figures f = { d, 0, d->graph_cached };
    sim_block_each(count, &f);
    if (f.used > used_high[d->ordinal]) used_high[d->ordinal] = f.used;
    if (f.reserved > reserved_high[d->ordinal]) reserved_high[d->ordinal] = f.reserved;
    return f;
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice dev, CUgraphMem_attribute attribute, void *value)
{
    SIM_ENTER(cuDeviceGetGraphMemAttribute);
    struct sim_device *d = sim_device_get(dev);
    CUresult result = CUDA_SUCCESS;
    if (!d) return CUDA_ERROR_INVALID_DEVICE;
    if (!value) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct figures f = figures_of(d);
    switch (attribute) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT: *(cuuint64_t *)value = f.used; break;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH: *(cuuint64_t *)value = used_high[dev]; break;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT: *(cuuint64_t *)value = f.reserved; break;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH: *(cuuint64_t *)value = reserved_high[dev]; break;
    default: result = CUDA_ERROR_INVALID_VALUE; break;
    }
    sim_unlock();
    return result;
}

CUresult cuDeviceSetGraphMemAttribute(CUdevice dev, CUgraphMem_attribute attribute, void *value)
{
    SIM_ENTER(cuDeviceSetGraphMemAttribute);
    struct sim_device *d = sim_device_get(dev);
    CUresult result = CUDA_SUCCESS;
    if (!d) return CUDA_ERROR_INVALID_DEVICE;
    if (!value || *(cuuint64_t *)value) return CUDA_ERROR_INVALID_VALUE; /* a peak can only be reset */
    sim_lock();
    struct figures f = figures_of(d);
    if (attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH) used_high[dev] = f.used;
    else if (attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH) reserved_high[dev] = f.reserved;
    else result = CUDA_ERROR_INVALID_VALUE;
    sim_unlock();
    return result;
}

CUresult cuDeviceGraphMemTrim(CUdevice dev)
{
    SIM_ENTER(cuDeviceGraphMemTrim);
    struct sim_device *d = sim_device_get(dev);
    if (!d) return CUDA_ERROR_INVALID_DEVICE;
    sim_lock();
    sim_device_trim_graphs(d);
    sim_unlock();
    return CUDA_SUCCESS;
}
