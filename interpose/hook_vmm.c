/* The program's own virtual memory management: observed, as three figures. */
#include "hook.h"
#include "observe.h"
#include "owned.h"
#include "vmm.h"

/* What a mechanism has mapped is no mapping of the program's: the driver says of it what it says of memory that nobody mapped. */
static CUdeviceptr as_the_programs(enum nxm_mode mode, CUdeviceptr address)
{
    return mode == NXM_MODE_SERVE && nxm_owned_contains(address) ? 0 : address;
}

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
        span.address = as_the_programs(mode, address);
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
    CUdeviceptr mapped = as_the_programs(mode, (CUdeviceptr)(uintptr_t)address);
    CUresult result = nxm_real.cuMemRetainAllocationHandle(handle, (void *)(uintptr_t)mapped);

    if (mode == NXM_MODE_SERVE && result == CUDA_SUCCESS)
        nxm_vmm_retained(*handle, mapped);
    nxm_leave(mode);
    return result;
}

CUresult hook_cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access, size_t count)
{
    NXM_NEEDS(cuMemSetAccess);
    enum nxm_mode mode = nxm_enter(NXM_CALLER, false);
    CUresult result = nxm_real.cuMemSetAccess(as_the_programs(mode, address), bytes, access, count);

    nxm_leave(mode);
    return result;
}

CUresult hook_cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr address)
{
    NXM_NEEDS(cuMemGetAccess);
    enum nxm_mode mode = nxm_enter(NXM_CALLER, false);
    CUresult result = nxm_real.cuMemGetAccess(flags, location, as_the_programs(mode, address));

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
    CUresult result = nxm_real.cuMemMap(as_the_programs(mode, address), bytes, offset, handle, flags);

    if (mode == NXM_MODE_SERVE && result == CUDA_SUCCESS)
        nxm_vmm_mapped(address, bytes, handle, nxm_label_take(NXM_API_cuMemMap, bytes));
    nxm_leave(mode);
    return result;
}

CUresult hook_cuMemUnmap(CUdeviceptr address, size_t bytes)
{
    NXM_NEEDS(cuMemUnmap);
    enum nxm_mode mode = nxm_enter(NXM_CALLER, false);
    CUresult result = nxm_real.cuMemUnmap(as_the_programs(mode, address), bytes);

    if ((mode == NXM_MODE_SERVE || mode == NXM_MODE_LATE) && result == CUDA_SUCCESS)
        nxm_vmm_unmapped(address, bytes);
    nxm_leave(mode);
    return result;
}
