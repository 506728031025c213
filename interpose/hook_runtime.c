/* The runtime's own names: a label for the driver call inside, then the real function, whose result and
 * errors are the program's. Memory that came without a driver call that we saw is recorded as observed. */
#include <stdbool.h>
#include <stdint.h>

/* A plugin's own call gets no label, and the driver calls inside it are the plugin's, whatever thread it runs on. */
#define NXM_RUNTIME_GUARD(call)                            \
    if (nxm_is_plugins_call(__builtin_return_address(0))) { \
        nxm_foreign_begin();                               \
        cudaError_t its_result = (call);                   \
        nxm_foreign_end();                                 \
        return its_result;                                 \
    }

#include "hooks.h"
#include "label.h"
#include "lifecycle.h"
#include "observe.h"
#include "runtime.h"
#include "thread.h"

#define REAL(symbol) __typeof__(hook_##symbol) *real

/* The real call inside its label; *ret_unseen: it succeeded and no driver hook fired. */
#define LABELLED(api, bytes, call, ret_unseen)                          \
    __extension__({                                                     \
        struct nxm_label saved_ = nxm_label_push(api, bytes);           \
        cudaError_t result_ = (call);                                   \
        bool fired_ = nxm_label_pop(saved_);                            \
        *(ret_unseen) = !fired_ && result_ == cudaSuccess;              \
        result_;                                                        \
    })

static void observe(enum nxm_api api, const void *pointer, uint64_t bytes, enum nxm_class class_)
{
    if (pointer) nxm_observe_runtime(api, (uint64_t)(uintptr_t)pointer, bytes, class_);
}

/* --- device memory --------------------------------------------------------------------------------- */

static cudaError_t allocate(enum nxm_api api, REAL(cudaMalloc), void **pointer, size_t size)
{
    bool unseen;
    cudaError_t result = LABELLED(api, size, real(pointer, size), &unseen);
    if (unseen && pointer) observe(api, *pointer, size, NXM_CLASS_NATIVE);
    return result;
}

static cudaError_t allocate_async(enum nxm_api api, REAL(cudaMallocAsync), void **pointer, size_t size,
                                  cudaStream_t stream)
{
    bool unseen;
    cudaError_t result = LABELLED(api, size, real(pointer, size, stream), &unseen);
    if (unseen && pointer) observe(api, *pointer, size, NXM_CLASS_NATIVE);
    return result;
}

static cudaError_t allocate_from_pool(enum nxm_api api, REAL(cudaMallocFromPoolAsync), void **pointer, size_t size,
                                      cudaMemPool_t pool, cudaStream_t stream)
{
    bool unseen;
    cudaError_t result = LABELLED(api, size, real(pointer, size, pool, stream), &unseen);
    if (unseen && pointer) observe(api, *pointer, size, NXM_CLASS_POOL);
    return result;
}

static cudaError_t allocate_pitch(enum nxm_api api, REAL(cudaMallocPitch), void **pointer, size_t *pitch,
                                  size_t width, size_t height)
{
    bool unseen;
    cudaError_t result = LABELLED(api, 0, real(pointer, pitch, width, height), &unseen);
    if (unseen && pointer && pitch) observe(api, *pointer, (uint64_t)*pitch * height, NXM_CLASS_NATIVE);
    return result;
}

static cudaError_t allocate_3d(enum nxm_api api, REAL(cudaMalloc3D), struct cudaPitchedPtr *pitched,
                               struct cudaExtent extent)
{
    bool unseen;
    cudaError_t result = LABELLED(api, 0, real(pitched, extent), &unseen);
    if (unseen && pitched)
        observe(api, pitched->ptr, (uint64_t)pitched->pitch * extent.height * extent.depth, NXM_CLASS_NATIVE);
    return result;
}

static cudaError_t allocate_managed(enum nxm_api api, REAL(cudaMallocManaged), void **pointer, size_t size,
                                    unsigned flags)
{
    bool unseen;
    cudaError_t result = LABELLED(api, size, real(pointer, size, flags), &unseen);
    if (unseen && pointer) observe(api, *pointer, size, NXM_CLASS_MANAGED);
    return result;
}

/* cudaFree, cudaFreeHost, cudaHostUnregister: one pointer, which must be gone from the table */
static cudaError_t release(enum nxm_api api, REAL(cudaFree), void *pointer)
{
    bool unseen;
    cudaError_t result = LABELLED(api, 0, real(pointer), &unseen);
    if (unseen && pointer) nxm_observe_runtime_free((uint64_t)(uintptr_t)pointer);
    return result;
}

static cudaError_t release_async(enum nxm_api api, REAL(cudaFreeAsync), void *pointer, cudaStream_t stream)
{
    bool unseen;
    cudaError_t result = LABELLED(api, 0, real(pointer, stream), &unseen);
    if (unseen && pointer) nxm_observe_runtime_free((uint64_t)(uintptr_t)pointer);
    return result;
}

/* --- host memory ----------------------------------------------------------------------------------- */

static cudaError_t allocate_host(enum nxm_api api, REAL(cudaMallocHost), void **pointer, size_t size)
{
    bool unseen;
    cudaError_t result = LABELLED(api, size, real(pointer, size), &unseen);
    if (unseen && pointer) observe(api, *pointer, size, NXM_CLASS_PINNED);
    return result;
}

static cudaError_t allocate_host_flags(enum nxm_api api, REAL(cudaHostAlloc), void **pointer, size_t size,
                                       unsigned flags)
{
    bool unseen;
    cudaError_t result = LABELLED(api, size, real(pointer, size, flags), &unseen);
    if (unseen && pointer) observe(api, *pointer, size, NXM_CLASS_PINNED);
    return result;
}

static cudaError_t register_host(enum nxm_api api, REAL(cudaHostRegister), void *pointer, size_t size,
                                 unsigned flags)
{
    bool unseen;
    cudaError_t result = LABELLED(api, size, real(pointer, size, flags), &unseen);
    if (unseen) observe(api, pointer, size, NXM_CLASS_REGISTERED);
    return result;
}

/* --- arrays ---------------------------------------------------------------------------------------- */

/* What the elements take; the driver's padding is its own. Extents of 0 mean a dimension less. */
static uint64_t array_bytes(const struct cudaChannelFormatDesc *desc, size_t width, size_t height, size_t depth)
{
    uint64_t bits = (uint64_t)desc->x + (uint64_t)desc->y + (uint64_t)desc->z + (uint64_t)desc->w;
    return bits / 8 * width * (height ? height : 1) * (depth ? depth : 1);
}

static cudaError_t allocate_array(enum nxm_api api, REAL(cudaMallocArray), cudaArray_t *array,
                                  const struct cudaChannelFormatDesc *desc, size_t width, size_t height,
                                  unsigned flags)
{
    bool unseen;
    cudaError_t result = LABELLED(api, 0, real(array, desc, width, height, flags), &unseen);
    if (unseen && array && desc) observe(api, *array, array_bytes(desc, width, height, 0), NXM_CLASS_ARRAY);
    return result;
}

static cudaError_t allocate_array_3d(enum nxm_api api, REAL(cudaMalloc3DArray), cudaArray_t *array,
                                     const struct cudaChannelFormatDesc *desc, struct cudaExtent extent,
                                     unsigned flags)
{
    bool unseen;
    cudaError_t result = LABELLED(api, 0, real(array, desc, extent, flags), &unseen);
    if (unseen && array && desc)
        observe(api, *array, array_bytes(desc, extent.width, extent.height, extent.depth), NXM_CLASS_ARRAY);
    return result;
}

static cudaError_t allocate_mipmapped(enum nxm_api api, REAL(cudaMallocMipmappedArray), cudaMipmappedArray_t *array,
                                      const struct cudaChannelFormatDesc *desc, struct cudaExtent extent, unsigned levels,
                                      unsigned flags)
{
    bool unseen;
    cudaError_t result = LABELLED(api, 0, real(array, desc, extent, levels, flags), &unseen);
    uint64_t bytes = 0;
    for (unsigned i = 0; unseen && desc && i < levels && i < 32; ++i)
        bytes += array_bytes(desc, extent.width >> i ? extent.width >> i : 1, extent.height >> i, extent.depth >> i);
    if (unseen && array && desc) observe(api, *array, bytes, NXM_CLASS_ARRAY);
    return result;
}

static cudaError_t release_mipmapped(enum nxm_api api, REAL(cudaFreeMipmappedArray), cudaMipmappedArray_t array)
{
    bool unseen;
    cudaError_t result = LABELLED(api, 0, real(array), &unseen);
    if (unseen && array) nxm_observe_runtime_free((uint64_t)(uintptr_t)array);
    return result;
}

static cudaError_t release_array(enum nxm_api api, REAL(cudaFreeArray), cudaArray_t array)
{
    bool unseen;
    cudaError_t result = LABELLED(api, 0, real(array), &unseen);
    if (unseen && array) nxm_observe_runtime_free((uint64_t)(uintptr_t)array);
    return result;
}

/* --- the hooks ------------------------------------------------------------------------------------- */

#define ON_STREAM (void **pointer, size_t size, cudaStream_t stream)
#define FROM_POOL (void **pointer, size_t size, cudaMemPool_t pool, cudaStream_t stream)

NXM_RUNTIME_HOOK(cudaMalloc, allocate, (void **pointer, size_t size), pointer, size)
NXM_RUNTIME_HOOK(cudaFree, release, (void *pointer), pointer)
NXM_RUNTIME_HOOK(cudaMallocAsync, allocate_async, ON_STREAM, pointer, size, stream)
NXM_RUNTIME_HOOK(cudaMallocAsync_ptsz, allocate_async, ON_STREAM, pointer, size, stream)
NXM_RUNTIME_HOOK(cudaMallocFromPoolAsync, allocate_from_pool, FROM_POOL, pointer, size, pool, stream)
NXM_RUNTIME_HOOK(cudaMallocFromPoolAsync_ptsz, allocate_from_pool, FROM_POOL, pointer, size, pool, stream)
NXM_RUNTIME_HOOK(cudaFreeAsync, release_async, (void *pointer, cudaStream_t stream), pointer, stream)
NXM_RUNTIME_HOOK(cudaFreeAsync_ptsz, release_async, (void *pointer, cudaStream_t stream), pointer, stream)
NXM_RUNTIME_HOOK(cudaMallocPitch, allocate_pitch, (void **pointer, size_t *pitch, size_t width, size_t height),
                 pointer, pitch, width, height)
NXM_RUNTIME_HOOK(cudaMalloc3D, allocate_3d, (struct cudaPitchedPtr *pitched, struct cudaExtent extent), pitched, extent)
NXM_RUNTIME_HOOK(cudaMallocManaged, allocate_managed, (void **pointer, size_t size, unsigned flags), pointer, size,
                 flags)
NXM_RUNTIME_HOOK(cudaMallocHost, allocate_host, (void **pointer, size_t size), pointer, size)
NXM_RUNTIME_HOOK(cudaHostAlloc, allocate_host_flags, (void **pointer, size_t size, unsigned flags), pointer, size,
                 flags)
NXM_RUNTIME_HOOK(cudaFreeHost, release, (void *pointer), pointer)
NXM_RUNTIME_HOOK(cudaHostRegister, register_host, (void *pointer, size_t size, unsigned flags), pointer, size, flags)
NXM_RUNTIME_HOOK(cudaHostUnregister, release, (void *pointer), pointer)
NXM_RUNTIME_HOOK(cudaMallocArray, allocate_array,
                 (cudaArray_t *array, const struct cudaChannelFormatDesc *desc, size_t width, size_t height,
                  unsigned flags),
                 array, desc, width, height, flags)
NXM_RUNTIME_HOOK(cudaMalloc3DArray, allocate_array_3d,
                 (cudaArray_t *array, const struct cudaChannelFormatDesc *desc, struct cudaExtent extent,
                  unsigned flags),
                 array, desc, extent, flags)
NXM_RUNTIME_HOOK(cudaFreeArray, release_array, (cudaArray_t array), array)
NXM_RUNTIME_HOOK(cudaMallocMipmappedArray, allocate_mipmapped,
                 (cudaMipmappedArray_t *array, const struct cudaChannelFormatDesc *desc, struct cudaExtent extent,
                  unsigned levels, unsigned flags),
                 array, desc, extent, levels, flags)
NXM_RUNTIME_HOOK(cudaFreeMipmappedArray, release_mipmapped, (cudaMipmappedArray_t array), array)
