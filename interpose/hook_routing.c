/* The doors that hand out driver functions by name. The real one answers first; its answer is replaced only
 * when it is a function that we stand in front of, so not-found, versions and states come out by themselves. */
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "hooks.h"
#include "real.h"
#include "route.h"
#include "route_names.h"
#include "runtime.h"

/* What is read before the options are. `kept`: 0 unknown, 1 no, 2 yes; every thread finds the same. */
static bool is_set(int *kept, const char *variable)
{
    int known = __atomic_load_n(kept, __ATOMIC_RELAXED);
    if (!known) {
        const char *value = secure_getenv(variable);
        known = value && value[0] == '1' && !value[1] ? 2 : 1;
        __atomic_store_n(kept, known, __ATOMIC_RELAXED);
    }
    return known == 2;
}

bool nxm_route_keep_deepbind(void)
{
    static int keep;
    return is_set(&keep, "NXMEM_KEEP_DEEPBIND");
}

bool nxm_route_coverage(void)
{
    static int coverage;
    return is_set(&coverage, "NXMEM_COVERAGE");
}

CUresult hook_cuGetProcAddress(const char *symbol, void **pfn, int version, cuuint64_t flags)
{
    if (!nxm_real_ready() || !nxm_real.cuGetProcAddress) return CUDA_ERROR_NOT_FOUND;
    CUresult result = nxm_real.cuGetProcAddress(symbol, pfn, version, flags);
    if (result == CUDA_SUCCESS && pfn && *pfn) *pfn = nxm_route_proc(*pfn, symbol, version, flags);
    return result;
}

CUresult hook_cuGetProcAddress_v2(const char *symbol, void **pfn, int version, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult *status)
{
    if (!nxm_real_ready() || !nxm_real.cuGetProcAddress_v2) return CUDA_ERROR_NOT_FOUND;
    CUresult result = nxm_real.cuGetProcAddress_v2(symbol, pfn, version, flags, status);
    if (result == CUDA_SUCCESS && pfn && *pfn) *pfn = nxm_route_proc(*pfn, symbol, version, flags);
    return result;
}

/* Which version this runtime asks the driver for is its own affair: identity alone decides. Runtimes before 12
 * have no `status`: what stands in that register then is passed on unread, as the caller left it. */
static cudaError_t entry_point(enum nxm_api api, __typeof__(hook_cudaGetDriverEntryPoint) *real, const char *symbol,
                               void **function, unsigned long long flags,
                               enum cudaDriverEntryPointQueryResult *status)
{
    (void)api;
    cudaError_t result = real(symbol, function, flags, status);
    if (result == cudaSuccess && function && *function) *function = nxm_route_proc(*function, symbol, INT_MAX, flags);
    return result;
}

static cudaError_t entry_point_by_version(enum nxm_api api, __typeof__(hook_cudaGetDriverEntryPointByVersion) *real,
                                          const char *symbol, void **function, unsigned version,
                                          unsigned long long flags, enum cudaDriverEntryPointQueryResult *status)
{
    cudaError_t result = real(symbol, function, version, flags, status);
    if (api == NXM_API_cudaGetDriverEntryPointByVersion_ptsz && flags == cudaEnableDefault)
        flags = cudaEnablePerThreadDefaultStream;
    if (result == cudaSuccess && function && *function)
        *function = nxm_route_proc(*function, symbol, version > INT_MAX ? INT_MAX : (int)version, flags);
    return result;
}

#define BY_NAME (const char *symbol, void **function, unsigned long long flags, \
                 enum cudaDriverEntryPointQueryResult *status)
#define BY_VERSION (const char *symbol, void **function, unsigned version, unsigned long long flags, \
                    enum cudaDriverEntryPointQueryResult *status)

NXM_RUNTIME_HOOK(cudaGetDriverEntryPoint, entry_point, BY_NAME, symbol, function, flags, status)
NXM_RUNTIME_HOOK(cudaGetDriverEntryPoint_ptsz, entry_point, BY_NAME, symbol, function, flags, status)
NXM_RUNTIME_HOOK(cudaGetDriverEntryPointByVersion, entry_point_by_version, BY_VERSION, symbol, function, version,
                 flags, status)
NXM_RUNTIME_HOOK(cudaGetDriverEntryPointByVersion_ptsz, entry_point_by_version, BY_VERSION, symbol, function,
                 version, flags, status)
