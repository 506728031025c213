/* A CUDA driver that does nothing, fast, so that what is measured is what lies above it. One device, one context, memory that
 * is addresses only (cheap.h). Its own price is taken off by measuring a program on it alone. */
#define CHEAP_BASE (UINT64_C(1) << 44)
#include "cheap.h"

#include <cuda.h>
#include <string.h>

#undef cuMemAlloc
#undef cuMemFree
#undef cuMemGetInfo
#undef cuDeviceTotalMem
#undef cuCtxCreate
#undef cuGetProcAddress

#define EXPORT __attribute__((visibility("default")))

static int context_at; /* its address is the context */
static __thread CUcontext current;

EXPORT CUresult CUDAAPI cuInit(unsigned flags)
{
    (void)flags;
    return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuDriverGetVersion(int *version)
{
    *version = 13000;
    return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuDeviceGetCount(int *count)
{
    *count = 1;
    return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuDeviceGet(CUdevice *device, int ordinal)
{
    *device = ordinal;
    return ordinal == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

EXPORT CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    (void)device;
    *context = (CUcontext)(void *)&context_at;
    return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active)
{
    (void)device;
    *flags = 0;
    *active = 1;
    return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuCtxSetCurrent(CUcontext context)
{
    current = context;
    return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuCtxGetCurrent(CUcontext *context)
{
    *context = current;
    return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuCtxGetDevice(CUdevice *device)
{
    *device = 0;
    return current ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

EXPORT CUresult CUDAAPI cuCtxPushCurrent_v2(CUcontext context)
{
    current = context;
    return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuCtxPopCurrent_v2(CUcontext *context)
{
    *context = current;
    return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuCtxSynchronize(void)
{
    return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    (void)attribute;
    (void)device;
    *value = 512;
    return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuMemAlloc_v2(CUdeviceptr *address, size_t bytes)
{
    *address = cheap_take(bytes);
    return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuMemFree_v2(CUdeviceptr address)
{
    cheap_give(address);
    return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuMemAllocAsync(CUdeviceptr *address, size_t bytes, CUstream stream)
{
    (void)stream;
    return cuMemAlloc_v2(address, bytes);
}

EXPORT CUresult CUDAAPI cuMemFreeAsync(CUdeviceptr address, CUstream stream)
{
    (void)stream;
    return cuMemFree_v2(address);
}

EXPORT CUresult CUDAAPI cuStreamGetId(CUstream stream, unsigned long long *id)
{
    *id = (unsigned long long)(uintptr_t)stream + 1;
    return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
    (void)stream;
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuStreamQuery(CUstream stream)
{
    (void)stream;
    return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuStreamSynchronize(CUstream stream)
{
    (void)stream;
    return CUDA_SUCCESS;
}

/* Every driver has these beside the two above; programs built with per-thread default streams call them. */
EXPORT CUresult CUDAAPI cuStreamQuery_ptsz(CUstream stream);
EXPORT CUresult CUDAAPI cuStreamQuery_ptsz(CUstream stream)
{
    return cuStreamQuery(stream);
}

EXPORT CUresult CUDAAPI cuStreamSynchronize_ptsz(CUstream stream);
EXPORT CUresult CUDAAPI cuStreamSynchronize_ptsz(CUstream stream)
{
    return cuStreamSynchronize(stream);
}

EXPORT CUresult CUDAAPI cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    *free_bytes = *total_bytes = (size_t)80 << 30;
    return CUDA_SUCCESS;
}
