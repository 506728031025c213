/* Pools: which one a device uses, what is asked of the default one, whose memory a mechanism provides, and pointers that other
 * processes share. */
#include "hook.h"
#include "observe.h"
#include "peers.h"
#include "pool.h"

/* --- the one in use ------------------------------------------------------------------------------------------------ */

CUresult hook_cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
    NXM_NEEDS(cuDeviceSetMemPool);
    CUresult result = nxm_real.cuDeviceSetMemPool(device, pool);

    if (result == CUDA_SUCCESS)
        nxm_pool_chosen(device, pool);
    return result;
}

/* The form by location, for a device's memory the same. */
CUresult hook_cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
    NXM_NEEDS(cuMemSetMemPool);
    CUresult result = nxm_real.cuMemSetMemPool(location, type, pool);

    if (result == CUDA_SUCCESS && location->type == CU_MEM_LOCATION_TYPE_DEVICE && type == CU_MEM_ALLOCATION_TYPE_PINNED)
        nxm_pool_chosen(location->id, pool);
    return result;
}

CUresult hook_cuMemPoolDestroy(CUmemoryPool pool)
{
    NXM_NEEDS(cuMemPoolDestroy);
    CUresult result = nxm_real.cuMemPoolDestroy(pool);

    if (result == CUDA_SUCCESS)
        nxm_pool_destroyed(pool);
    return result;
}

/* --- figures --------------------------------------------------------------------------------------------------------- */

/* What a mechanism has given out in its place is used, and reserved with it. */
static uint64_t stood_in_for(CUmemPool_attribute attribute, int device)
{
    switch (attribute) {
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        return nxm_pool_used_now(device);
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        return nxm_pool_used_high(device);
    default:
        return 0;
    }
}

CUresult hook_cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    NXM_NEEDS(cuMemPoolGetAttribute);
    enum nxm_mode mode = nxm_enter(NXM_CALLER, false);
    CUresult result = nxm_real.cuMemPoolGetAttribute(pool, attribute, value);

    if (result == CUDA_SUCCESS && mode == NXM_MODE_SERVE && attribute >= CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) {
        int device = nxm_pool_default_of(pool);
        uint64_t more = device >= 0 ? stood_in_for(attribute, device) : 0;
        if (more != 0)
            *(cuuint64_t *)value += more;
    }
    nxm_leave(mode);
    return result;
}

CUresult hook_cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    NXM_NEEDS(cuMemPoolSetAttribute);
    enum nxm_mode mode = nxm_enter(NXM_CALLER, false);
    CUresult result = nxm_real.cuMemPoolSetAttribute(pool, attribute, value);

    /* The only value that it takes is 0: the highest is from now on. Both figures are one of ours. */
    if (result == CUDA_SUCCESS && mode == NXM_MODE_SERVE && attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH)
        nxm_pool_high_from_now(nxm_pool_default_of(pool));
    nxm_leave(mode);
    return result;
}

/* --- access ------------------------------------------------------------------------------------------------------------ */

CUresult hook_cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
    NXM_NEEDS(cuMemPoolSetAccess);
    enum nxm_mode mode = nxm_enter(NXM_CALLER, false);
    CUresult result = nxm_real.cuMemPoolSetAccess(pool, map, count);
    nxm_process_watch_forks();
    int device = result == CUDA_SUCCESS && !nxm_is_child() && mode != NXM_MODE_NESTED ? nxm_pool_default_of(pool) : -1;

    for (size_t i = 0; device >= 0 && i < count; i++) {
        if (map[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE)
            nxm_peers_of_pool(device, map[i].location.id, map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE,
                              mode == NXM_MODE_SERVE);
    }
    nxm_leave(mode);
    return result;
}

/* --- other processes' ---------------------------------------------------------------------------------------------------- */

CUresult hook_cuMemPoolImportPointer(CUdeviceptr *address, CUmemoryPool pool, CUmemPoolPtrExportData *shared)
{
    NXM_NEEDS(cuMemPoolImportPointer);
    enum nxm_mode mode = nxm_enter(NXM_CALLER, true);
    CUresult result = nxm_real.cuMemPoolImportPointer(address, pool, shared);

    if (result == CUDA_SUCCESS && mode == NXM_MODE_SERVE)
        nxm_observe(NXM_TABLE_MEMORY, NXM_CLASS_IMPORTED, nxm_label_take(NXM_API_cuMemPoolImportPointer, 0), *address, 0);
    nxm_leave(mode);
    return result;
}
