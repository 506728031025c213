/* What pools answer about themselves, which one a device uses, and their access. */
#include "context.h"
#include "device.h"
#include "pool.h"
#include "state.h"

static CUresult get_attribute(struct sim_pool *p, CUmemPool_attribute attribute, void *value)
{
    switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES: *(int *)value = p->reuse_events; break;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC: *(int *)value = p->reuse_opportunistic; break;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: *(int *)value = p->reuse_dependencies; break;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: *(cuuint64_t *)value = p->threshold; break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT: *(cuuint64_t *)value = p->reserved; break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: *(cuuint64_t *)value = p->reserved_high; break;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT: *(cuuint64_t *)value = p->used; break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH: *(cuuint64_t *)value = p->used_high; break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

static CUresult set_attribute(struct sim_pool *p, CUmemPool_attribute attribute, const void *value)
{
    switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES: p->reuse_events = *(const int *)value; break;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC: p->reuse_opportunistic = *(const int *)value; break;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: p->reuse_dependencies = *(const int *)value; break;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: p->threshold = *(const cuuint64_t *)value; break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: /* only to 0: from now on */
        if (*(const cuuint64_t *)value) return CUDA_ERROR_INVALID_VALUE;
        p->reserved_high = p->reserved;
        break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        if (*(const cuuint64_t *)value) return CUDA_ERROR_INVALID_VALUE;
        p->used_high = p->used;
        break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    SIM_ENTER(cuMemPoolGetAttribute);
    if (!value) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_pool *p = sim_object_find(pool, SIM_POOL);
    CUresult result = p ? get_attribute(p, attribute, value) : CUDA_ERROR_INVALID_VALUE;
    sim_unlock();
    return result;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    SIM_ENTER(cuMemPoolSetAttribute);
    if (!value) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_pool *p = sim_object_find(pool, SIM_POOL);
    CUresult result = p ? set_attribute(p, attribute, value) : CUDA_ERROR_INVALID_VALUE;
    sim_unlock();
    return result;
}

/* The device cannot reach what the pool gave any more: it had better be done with it. */
static void take_access(struct sim_pool *p, int device)
{
    if (!(p->access >> device & 1)) return;
    p->access &= ~(1u << device);
    for (struct sim_block *b = sim_block_next(0); b; b = sim_block_next(b->range.start + 1))
        if (b->kind == SIM_BLOCK_ASYNC && b->pool == p) sim_order_revoked(b, 1u << device);
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
    SIM_ENTER(cuMemPoolSetAccess);
    if (count && !map) return CUDA_ERROR_INVALID_VALUE;
    CUresult result = CUDA_SUCCESS;
    sim_lock();
    struct sim_pool *p = sim_object_find(pool, SIM_POOL);
    if (!p) result = CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; result == CUDA_SUCCESS && i < count; i++) {
        int id = map[i].location.id;
        if (map[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE || !sim_device_get(id)) result = CUDA_ERROR_INVALID_DEVICE;
        else if (map[i].flags) p->access |= 1u << id;
        else if (p->host) p->access &= ~(1u << id); /* may be taken from any device */
        else if (id == p->device->ordinal) result = CUDA_ERROR_INVALID_VALUE; /* its own device keeps access */
        else take_access(p, id);
    }
    sim_unlock();
    return result;
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool pool, CUmemLocation *location)
{
    SIM_ENTER(cuMemPoolGetAccess);
    if (!flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE || !sim_device_get(location->id))
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_pool *p = sim_object_find(pool, SIM_POOL);
    if (p) *flags = p->access >> location->id & 1 ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    sim_unlock();
    return p ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* --- a device's pools -------------------------------------------------------------------------------------- */

static CUresult get_pool(CUmemoryPool *pool, int dev, bool the_default)
{
    struct sim_device *d = sim_device_get(dev);
    if (!pool) return CUDA_ERROR_INVALID_VALUE;
    if (!d) return CUDA_ERROR_INVALID_DEVICE;
    sim_lock();
    *pool = (CUmemoryPool)(the_default ? d->default_pool : d->pool);
    sim_unlock();
    return CUDA_SUCCESS;
}

static CUresult set_pool(int dev, CUmemoryPool pool)
{
    struct sim_device *d = sim_device_get(dev);
    if (!d) return CUDA_ERROR_INVALID_DEVICE;
    sim_lock();
    struct sim_pool *p = sim_object_find(pool, SIM_POOL);
    bool fits = p && p->device == d && !p->host && !p->imported;
    if (fits) d->pool = p;
    sim_unlock();
    return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice dev)
{
    SIM_ENTER(cuDeviceGetDefaultMemPool);
    return get_pool(pool, dev, true);
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
    SIM_ENTER(cuDeviceGetMemPool);
    return get_pool(pool, dev, false);
}

CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
    SIM_ENTER(cuDeviceSetMemPool);
    return set_pool(dev, pool);
}

/* CUDA 13's forms by location: pinned memory, of a device or of the host. */
static CUresult check_location(const CUmemLocation *l, CUmemAllocationType type)
{
    if (!l) return CUDA_ERROR_INVALID_VALUE;
    if (type == CU_MEM_ALLOCATION_TYPE_MANAGED) return CUDA_ERROR_NOT_SUPPORTED;
    if (type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
    return l->type == CU_MEM_LOCATION_TYPE_DEVICE || sim_host_location(l) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* The host's pools: a default one, made when it is asked for, and the one in use. */
static struct sim_pool *host_default, *host_pool;

static CUresult get_host_pool(CUmemoryPool *pool, bool the_default)
{
    if (!pool) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    if (!host_default) host_default = sim_pool_new(sim_device_get(0), true, true);
    struct sim_pool *p = the_default || !host_pool || !host_pool->object.open ? host_default : host_pool;
    if (p) *pool = (CUmemoryPool)p;
    sim_unlock();
    return p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult set_host_pool(CUmemoryPool pool)
{
    sim_lock();
    struct sim_pool *p = sim_object_find(pool, SIM_POOL);
    bool fits = p && p->host && !p->imported;
    if (fits) {
        sim_object_ref(&p->object); /* closed or not, it can be looked at */
        if (host_pool) sim_object_unref(&host_pool->object);
        host_pool = p;
    }
    sim_unlock();
    return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult get_pool_at(CUmemoryPool *pool, const CUmemLocation *l, CUmemAllocationType type, bool the_default)
{
    CUresult result = check_location(l, type);
    if (result != CUDA_SUCCESS) return result;
    return l->type == CU_MEM_LOCATION_TYPE_DEVICE ? get_pool(pool, l->id, the_default) : get_host_pool(pool, the_default);
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
    SIM_ENTER(cuMemGetDefaultMemPool);
    return get_pool_at(pool, location, type, true);
}

CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
    SIM_ENTER(cuMemGetMemPool);
    return get_pool_at(pool, location, type, false);
}

CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
    SIM_ENTER(cuMemSetMemPool);
    CUresult result = check_location(location, type);
    if (result != CUDA_SUCCESS) return result;
    return location->type == CU_MEM_LOCATION_TYPE_DEVICE ? set_pool(location->id, pool) : set_host_pool(pool);
}
