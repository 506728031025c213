/* The program's own virtual memory management: observed, as three figures. */
#include "hook.h"
#include "observe.h"
#include "owned.h"
#include "vmm.h"

CUresult hook_cuMemAddressReserve(CUdeviceptr *address, size_t bytes, size_t align, CUdeviceptr hint,
                                  unsigned long long flags)
{
    NXM_NEEDS(cuMemAddressReserve);
    enum nxm_mode mode = nxm_enter(NXM_CALLER, true);
    CUresult result = nxm_real.cuMemAddressReserve(address, bytes, align, hint, flags);

    if (mode == NXM_MODE_SERVE && result == CUDA_SUCCESS)
        nxm_observe(NXM_TABLE_RESERVED, NXM_CLASS_VMM_RESERVED, nxm_label_take(NXM_API_cuMemAddressReserve, bytes), *address,
                    bytes);
    else if (mode == NXM_MODE_NESTED)
        nxm_owned_allocated(result, result == CUDA_SUCCESS ? *address : 0, bytes);
    nxm_leave(mode);
    return result;
}

struct span {
    CUdeviceptr address;
    size_t bytes;
};

static CUresult real_address_free(void *argument)
{
    const struct span *span = argument;

    return nxm_real.cuMemAddressFree(span->address, span->bytes);
}

CUresult hook_cuMemAddressFree(CUdeviceptr address, size_t bytes)
{
    NXM_NEEDS(cuMemAddressFree);
    enum nxm_mode mode = nxm_enter(NXM_CALLER, false);
    struct span span = { address, bytes };
    CUresult result;

    if (mode == NXM_MODE_NESTED) {
        uint64_t taken = nxm_owned_take(address);
        result = nxm_owned_freed(real_address_free(&span), address, taken);
    } else {
        result = nxm_observe_free(mode, NXM_TABLE_RESERVED, address, real_address_free, &span);
    }
    nxm_leave(mode);
    return result;
}

CUresult hook_cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *properties,
                          unsigned long long flags)
{
    NXM_NEEDS(cuMemCreate);
    enum nxm_mode mode = nxm_enter(NXM_CALLER, true);
    CUresult result = nxm_real.cuMemCreate(handle, bytes, properties, flags);

    if (nxm_observe_made_room(mode, result))
        result = nxm_real.cuMemCreate(handle, bytes, properties, flags);
    if (mode == NXM_MODE_SERVE && result == CUDA_SUCCESS) {
        bool on_device = properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
        nxm_vmm_created(*handle, bytes, on_device ? properties->location.id : -1, nxm_label_take(NXM_API_cuMemCreate, bytes));
    }
    nxm_leave(mode);
    return result;
}

CUresult hook_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shared,
                                             CUmemAllocationHandleType type)
{
    NXM_NEEDS(cuMemImportFromShareableHandle);
    enum nxm_mode mode = nxm_enter(NXM_CALLER, true);
    CUresult result = nxm_real.cuMemImportFromShareableHandle(handle, shared, type);

    if (mode == NXM_MODE_SERVE && result == CUDA_SUCCESS)
        nxm_vmm_imported(*handle, nxm_label_take(NXM_API_cuMemImportFromShareableHandle, 0));
    nxm_leave(mode);
    return result;
}

CUresult hook_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
    NXM_NEEDS(cuMemRetainAllocationHandle);
    enum nxm_mode mode = nxm_enter(NXM_CALLER, false);
    CUresult result = nxm_real.cuMemRetainAllocationHandle(handle, address);

    if (mode == NXM_MODE_SERVE && result == CUDA_SUCCESS)
        nxm_vmm_retained(*handle, (uint64_t)(uintptr_t)address);
    nxm_leave(mode);
    return result;
}

CUresult hook_cuMemRelease(CUmemGenericAllocationHandle handle)
{
    NXM_NEEDS(cuMemRelease);
    enum nxm_mode mode = nxm_enter(NXM_CALLER, false);
    bool followed = mode == NXM_MODE_SERVE || mode == NXM_MODE_LATE;
    uint64_t number = followed ? nxm_vmm_release_begin(handle) : 0;
    CUresult result = nxm_real.cuMemRelease(handle);

    nxm_vmm_release_end(handle, number, result == CUDA_SUCCESS);
    nxm_leave(mode);
    return result;
}

CUresult hook_cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                       unsigned long long flags)
{
    NXM_NEEDS(cuMemMap);
    enum nxm_mode mode = nxm_enter(NXM_CALLER, false);
    CUresult result = nxm_real.cuMemMap(address, bytes, offset, handle, flags);

    if (mode == NXM_MODE_SERVE && result == CUDA_SUCCESS)
        nxm_vmm_mapped(address, bytes, handle, nxm_label_take(NXM_API_cuMemMap, bytes));
    nxm_leave(mode);
    return result;
}

CUresult hook_cuMemUnmap(CUdeviceptr address, size_t bytes)
{
    NXM_NEEDS(cuMemUnmap);
    enum nxm_mode mode = nxm_enter(NXM_CALLER, false);
    CUresult result = nxm_real.cuMemUnmap(address, bytes);

    if ((mode == NXM_MODE_SERVE || mode == NXM_MODE_LATE) && result == CUDA_SUCCESS)
        nxm_vmm_unmapped(address, bytes);
    nxm_leave(mode);
    return result;
}
