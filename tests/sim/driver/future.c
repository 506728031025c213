#include "future.h"

#include "api.h"
#include "state.h"

#include <string.h>

enum { FUTURE = 99000 };

/* A flag word more than today. A program that asked for these knows it; one that is handed them unasked calls them with too
 * few arguments, and is refused. */
static CUresult mem_alloc_v3(CUdeviceptr *ptr, size_t bytes, unsigned long long flags)
{
    return flags ? CUDA_ERROR_INVALID_VALUE : cuMemAlloc_v2(ptr, bytes);
}

static CUresult mem_free_v3(CUdeviceptr ptr, unsigned long long flags)
{
    return flags ? CUDA_ERROR_INVALID_VALUE : cuMemFree_v2(ptr);
}

static CUresult mem_alloc_async_v2(CUdeviceptr *ptr, size_t bytes, CUstream stream, unsigned long long flags)
{
    return flags ? CUDA_ERROR_INVALID_VALUE : cuMemAllocAsync(ptr, bytes, stream);
}

/* A name that nobody knows: it takes whatever it is given. */
static CUresult unknown_name(void)
{
    return sim_life() == SIM_READY ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_NOT_INITIALIZED;
}

void *sim_future_address(const char *base, int version)
{
    static const struct { const char *base; void *address; } variants[] = {
        { "cuMemAlloc", (void *)mem_alloc_v3 },
        { "cuMemFree", (void *)mem_free_v3 },
        { "cuMemAllocAsync", (void *)mem_alloc_async_v2 },
        { "cuFutureMemAlloc", (void *)unknown_name },
        { "cuFutureCall", (void *)unknown_name },
    };
    if (sim_settings.version < FUTURE || version < FUTURE) return NULL;
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++)
        if (strcmp(variants[i].base, base) == 0) return variants[i].address;
    return NULL;
}
