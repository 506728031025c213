/* Memory pools. Their handles, properties and attributes have one layout in the driver's and the runtime's names. */
#include "address.h"
#include "state.h"

#include <stddef.h>

_Static_assert(sizeof(struct cudaMemPoolProps) == sizeof(CUmemPoolProps), "one struct, two names");
_Static_assert(sizeof(struct cudaMemAccessDesc) == sizeof(CUmemAccessDesc), "one struct, two names");
_Static_assert(sizeof(struct cudaMemPoolPtrExportData) == sizeof(CUmemPoolPtrExportData), "one struct, two names");

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *memPool, int device)
{
    return RT_CALL_NO_CONTEXT(DRV(cuDeviceGetDefaultMemPool, 11020), memPool, device);
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *memPool, int device)
{
    return RT_CALL_NO_CONTEXT(DRV(cuDeviceGetMemPool, 11020), memPool, device);
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t memPool)
{
    return RT_CALL_NO_CONTEXT(DRV(cuDeviceSetMemPool, 11020), device, memPool);
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t *memPool, const struct cudaMemPoolProps *poolProps)
{
    return RT_CALL_NO_CONTEXT(DRV(cuMemPoolCreate, 11020), memPool, (const CUmemPoolProps *)(const void *)poolProps);
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t memPool)
{
    return RT_CALL_NO_CONTEXT(DRV(cuMemPoolDestroy, 11020), memPool);
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t memPool, size_t minBytesToKeep)
{
    return RT_CALL_NO_CONTEXT(DRV(cuMemPoolTrimTo, 11020), memPool, minBytesToKeep);
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t memPool, enum cudaMemPoolAttr attr, void *value)
{
    return RT_CALL_NO_CONTEXT(DRV(cuMemPoolSetAttribute, 11020), memPool, (CUmemPool_attribute)attr, value);
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t memPool, enum cudaMemPoolAttr attr, void *value)
{
    return RT_CALL_NO_CONTEXT(DRV(cuMemPoolGetAttribute, 11020), memPool, (CUmemPool_attribute)attr, value);
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t memPool, const struct cudaMemAccessDesc *descList, size_t count)
{
    return RT_CALL_NO_CONTEXT(DRV(cuMemPoolSetAccess, 11020), memPool,
                              (const CUmemAccessDesc *)(const void *)descList, count);
}

cudaError_t cudaMemPoolGetAccess(enum cudaMemAccessFlags *flags, cudaMemPool_t memPool,
                                 struct cudaMemLocation *location)
{
    return RT_CALL_NO_CONTEXT(DRV(cuMemPoolGetAccess, 11020), (CUmemAccess_flags *)(void *)flags, memPool,
                              (CUmemLocation *)(void *)location);
}

cudaError_t cudaMemPoolExportToShareableHandle(void *shareableHandle, cudaMemPool_t memPool,
                                               enum cudaMemAllocationHandleType handleType, unsigned int flags)
{
    return RT_CALL_NO_CONTEXT(DRV(cuMemPoolExportToShareableHandle, 11020), shareableHandle, memPool,
                              (CUmemAllocationHandleType)handleType, flags);
}

cudaError_t cudaMemPoolImportFromShareableHandle(cudaMemPool_t *memPool, void *shareableHandle,
                                                 enum cudaMemAllocationHandleType handleType, unsigned int flags)
{
    return RT_CALL_NO_CONTEXT(DRV(cuMemPoolImportFromShareableHandle, 11020), memPool, shareableHandle,
                              (CUmemAllocationHandleType)handleType, flags);
}

#if SIM_CUDART_VERSION >= 13000 /* pools of any location came with CUDA 13 */
_Static_assert(sizeof(struct cudaMemLocation) == sizeof(CUmemLocation), "one struct, two names");

cudaError_t cudaMemGetDefaultMemPool(cudaMemPool_t *memPool, struct cudaMemLocation *location,
                                     enum cudaMemAllocationType type)
{
    return RT_CALL_NO_CONTEXT(DRV(cuMemGetDefaultMemPool, 13000), memPool, (CUmemLocation *)(void *)location,
                              (CUmemAllocationType)type);
}

cudaError_t cudaMemGetMemPool(cudaMemPool_t *memPool, struct cudaMemLocation *location, enum cudaMemAllocationType type)
{
    return RT_CALL_NO_CONTEXT(DRV(cuMemGetMemPool, 13000), memPool, (CUmemLocation *)(void *)location,
                              (CUmemAllocationType)type);
}

cudaError_t cudaMemSetMemPool(struct cudaMemLocation *location, enum cudaMemAllocationType type, cudaMemPool_t memPool)
{
    return RT_CALL_NO_CONTEXT(DRV(cuMemSetMemPool, 13000), (CUmemLocation *)(void *)location, (CUmemAllocationType)type,
                              memPool);
}
#endif

cudaError_t cudaMemPoolExportPointer(struct cudaMemPoolPtrExportData *exportData, void *ptr)
{
    return RT_CALL(DRV(cuMemPoolExportPointer, 11020), (CUmemPoolPtrExportData *)(void *)exportData, rt_address(ptr));
}

cudaError_t cudaMemPoolImportPointer(void **ptr, cudaMemPool_t memPool, struct cudaMemPoolPtrExportData *exportData)
{
    CUdeviceptr address;
    cudaError_t error = rt_enter();

    if (!error && !ptr)
        error = cudaErrorInvalidValue;
    if (!error)
        error = rt_error(DRV(cuMemPoolImportPointer, 11020)(&address, memPool,
                                                            (CUmemPoolPtrExportData *)(void *)exportData));
    if (!error)
        *ptr = rt_pointer(address);
    return rt_record(error);
}
