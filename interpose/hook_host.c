/* Host memory: pinned and registered. Observed, never deferred, never redirected. */
#include "hook.h"
#include "observe.h"

CUresult hook_cuMemAllocHost_v2(void **pointer, size_t bytes)
{
    NXM_NEEDS(cuMemAllocHost_v2);
    enum nxm_mode mode = nxm_enter(NXM_CALLER, true);
    CUresult result = nxm_real.cuMemAllocHost_v2(pointer, bytes);

    if (result == CUDA_SUCCESS && mode == NXM_MODE_SERVE)
        nxm_observe(NXM_TABLE_MEMORY, NXM_CLASS_PINNED, nxm_label_take(NXM_API_cuMemAllocHost_v2, bytes),
                    (uint64_t)(uintptr_t)*pointer, bytes);
    nxm_leave(mode);
    return result;
}

CUresult hook_cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags)
{
    NXM_NEEDS(cuMemHostAlloc);
    enum nxm_mode mode = nxm_enter(NXM_CALLER, true);
    CUresult result = nxm_real.cuMemHostAlloc(pointer, bytes, flags);

    if (result == CUDA_SUCCESS && mode == NXM_MODE_SERVE)
        nxm_observe(NXM_TABLE_MEMORY, NXM_CLASS_PINNED, nxm_label_take(NXM_API_cuMemHostAlloc, bytes),
                    (uint64_t)(uintptr_t)*pointer, bytes);
    nxm_leave(mode);
    return result;
}

static CUresult real_free_host(void *pointer)
{
    return nxm_real.cuMemFreeHost(pointer);
}

CUresult hook_cuMemFreeHost(void *pointer)
{
    NXM_NEEDS(cuMemFreeHost);
    enum nxm_mode mode = nxm_enter(NXM_CALLER, false);

    nxm_label_take(NXM_API_cuMemFreeHost, 0);
    CUresult result =
        nxm_observe_free(mode, NXM_TABLE_MEMORY, (uint64_t)(uintptr_t)pointer, real_free_host, pointer);
    nxm_leave(mode);
    return result;
}

static CUresult register_memory(const void *caller, enum nxm_api own, __typeof__(nxm_real.cuMemHostRegister_v2) real,
                                void *pointer, size_t bytes, unsigned flags)
{
    enum nxm_mode mode = nxm_enter(caller, true);
    CUresult result = real(pointer, bytes, flags);

    if (result == CUDA_SUCCESS && mode == NXM_MODE_SERVE)
        nxm_observe(NXM_TABLE_REGISTERED, NXM_CLASS_REGISTERED, nxm_label_take(own, bytes), (uint64_t)(uintptr_t)pointer, bytes);
    nxm_leave(mode);
    return result;
}

CUresult hook_cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned flags)
{
    NXM_NEEDS(cuMemHostRegister_v2);
    return register_memory(NXM_CALLER, NXM_API_cuMemHostRegister_v2, nxm_real.cuMemHostRegister_v2, pointer, bytes, flags);
}

CUresult hook_cuMemHostRegister(void *pointer, size_t bytes, unsigned flags)
{
    NXM_NEEDS(cuMemHostRegister);
    return register_memory(NXM_CALLER, NXM_API_cuMemHostRegister, nxm_real.cuMemHostRegister, pointer, bytes, flags);
}

static CUresult real_unregister(void *pointer)
{
    return nxm_real.cuMemHostUnregister(pointer);
}

CUresult hook_cuMemHostUnregister(void *pointer)
{
    NXM_NEEDS(cuMemHostUnregister);
    enum nxm_mode mode = nxm_enter(NXM_CALLER, false);

    nxm_label_take(NXM_API_cuMemHostUnregister, 0);
    CUresult result =
        nxm_observe_free(mode, NXM_TABLE_REGISTERED, (uint64_t)(uintptr_t)pointer, real_unregister, pointer);
    nxm_leave(mode);
    return result;
}
