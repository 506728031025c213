/* Memory and semaphores of another API, imported by file descriptors; the semaphores are used in per_stream/. */
#include "address.h"
#include "state.h"

#include <stddef.h>

cudaError_t cudaImportExternalMemory(cudaExternalMemory_t *extMem_out,
                                     const struct cudaExternalMemoryHandleDesc *memHandleDesc)
{
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC native;

    if (!memHandleDesc || memHandleDesc->type != cudaExternalMemoryHandleTypeOpaqueFd)
        return rt_record(cudaErrorInvalidValue);
    native = (CUDA_EXTERNAL_MEMORY_HANDLE_DESC){.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
                                                .handle.fd = memHandleDesc->handle.fd,
                                                .size = memHandleDesc->size,
                                                .flags = memHandleDesc->flags};
    return RT_CALL(DRV(cuImportExternalMemory, 10000), (CUexternalMemory *)(void *)extMem_out, &native);
}

cudaError_t cudaExternalMemoryGetMappedBuffer(void **devPtr, cudaExternalMemory_t extMem,
                                              const struct cudaExternalMemoryBufferDesc *bufferDesc)
{
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC native;
    CUdeviceptr address;
    cudaError_t error = rt_enter();

    if (!error && (!devPtr || !bufferDesc))
        error = cudaErrorInvalidValue;
    if (error)
        return rt_record(error);
    native = (CUDA_EXTERNAL_MEMORY_BUFFER_DESC){.offset = bufferDesc->offset,
                                                .size = bufferDesc->size,
                                                .flags = bufferDesc->flags};
    error = rt_error(DRV(cuExternalMemoryGetMappedBuffer, 10000)(&address, (CUexternalMemory)extMem, &native));
    if (!error)
        *devPtr = rt_pointer(address);
    return rt_record(error);
}

cudaError_t cudaDestroyExternalMemory(cudaExternalMemory_t extMem)
{
    return RT_CALL(DRV(cuDestroyExternalMemory, 10000), (CUexternalMemory)extMem);
}

cudaError_t cudaImportExternalSemaphore(cudaExternalSemaphore_t *extSem_out,
                                        const struct cudaExternalSemaphoreHandleDesc *semHandleDesc)
{
    CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC native;

    if (!semHandleDesc)
        return rt_record(cudaErrorInvalidValue);
    native = (CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC){.type = (CUexternalSemaphoreHandleType)semHandleDesc->type,
                                                   .handle.fd = semHandleDesc->handle.fd,
                                                   .flags = semHandleDesc->flags};
    return RT_CALL(DRV(cuImportExternalSemaphore, 10000), (CUexternalSemaphore *)(void *)extSem_out, &native);
}

cudaError_t cudaDestroyExternalSemaphore(cudaExternalSemaphore_t extSem)
{
    return RT_CALL(DRV(cuDestroyExternalSemaphore, 10000), (CUexternalSemaphore)extSem);
}
