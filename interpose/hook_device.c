/* Device memory, synchronous: cuMemAlloc, cuMemFree, pitched, managed, totals. */
#include <string.h>

#include "capture.h"
#include "hook.h"
#include "lane.h"
#include "observe.h"
#include "owned.h"
#include "quiet.h"
#include "scope.h"
#include "serve.h"
#include "usage.h"

/* --- cuMemAlloc ------------------------------------------------------------------------------------------------ */

static CUresult real_alloc(void *bytes, CUdeviceptr *ret_address)
{
    return nxm_real.cuMemAlloc_v2(ret_address, *(size_t *)bytes);
}

static CUresult serve_alloc(CUdeviceptr *address, size_t bytes)
{
    enum nxm_api api = nxm_label_take(NXM_API_cuMemAlloc_v2, bytes);
    struct nxm_order order;
    bool refuse = false;

    if (!address || bytes == 0)
        return nxm_real.cuMemAlloc_v2(address, bytes); /* the driver judges */
    nxm_lane_keep_limit();
    /* Where a capture may forbid it the call is the driver's, with its code and its effect. */
    bool forbidden = nxm_capture_may_forbid();
    bool placed = nxm_order_synchronous(&order) == CUDA_SUCCESS;
    struct nxm_scope *scope = placed && !forbidden ? nxm_scope_enter_for(&order, &refuse) : NULL;
    if (scope) {
        nxm_scope_remember(scope);
        CUresult result = nxm_serve_allocate(scope, &order, bytes, api, real_alloc, &bytes, address);
        nxm_scope_leave(scope);
        return result;
    }
    if (refuse)
        return CUDA_ERROR_OUT_OF_MEMORY;
    return nxm_serve_native(placed ? &order : NULL, bytes, NXM_CLASS_NATIVE, api, 0, real_alloc, &bytes, address);
}

static __attribute__((noinline)) CUresult alloc_otherwise(CUdeviceptr *address, size_t bytes, const void *caller)
{
    NXM_NEEDS(cuMemAlloc_v2);
    enum nxm_mode mode = nxm_enter(caller, true);
    CUresult result;

    if (mode == NXM_MODE_SERVE)
        result = serve_alloc(address, bytes);
    else
        result = nxm_real.cuMemAlloc_v2(address, bytes);
    if (mode == NXM_MODE_NESTED)
        nxm_owned_allocated(result, result == CUDA_SUCCESS ? *address : 0, bytes);
    nxm_leave(mode);
    return result;
}

CUresult hook_cuMemAlloc_v2(CUdeviceptr *address, size_t bytes)
{
    struct nxm_thread *thread = nxm_quiet_thread();
    CUcontext context;

    if (__builtin_expect(address && nxm_quiet_may_ask(bytes) && nxm_quiet_enter(thread, NXM_CALLER, NXM_QUIETLY_ALLOCATES, &context), 1))
        return nxm_quiet_allocate(thread, address, bytes);
    return alloc_otherwise(address, bytes, NXM_CALLER);
}

/* --- cuMemFree ------------------------------------------------------------------------------------------------- */

static CUresult real_free(void *address)
{
    return nxm_real.cuMemFree_v2(*(CUdeviceptr *)address);
}

static CUresult serve_free(CUdeviceptr address)
{
    struct nxm_order order;

    nxm_label_take(NXM_API_cuMemFree_v2, 0);
    if (address == 0)
        return real_free(&address);
    /* A free needs no current context: the owner is found from the pointer. */
    if (nxm_order_synchronous(&order) != CUDA_SUCCESS) {
        memset(&order, 0, sizeof order);
        order.cuda.struct_size = sizeof order.cuda;
        order.cuda.kind = NXMEM_CUDA_ORDER_SYNCHRONOUS;
        order.device = -1;
    }
    CUresult result = nxm_serve_free(address, &order, real_free, &address);
    nxm_lane_keep_limit();
    return result;
}

static CUresult nested_free(CUdeviceptr address)
{
    uint64_t taken = nxm_owned_take(address);

    return nxm_owned_freed(real_free(&address), address, taken);
}

static __attribute__((noinline)) CUresult free_otherwise(CUdeviceptr address, const void *caller)
{
    NXM_NEEDS(cuMemFree_v2);
    enum nxm_mode mode = nxm_enter(caller, false);
    CUresult result;

    if (mode == NXM_MODE_SERVE)
        result = serve_free(address);
    else if (mode == NXM_MODE_NESTED)
        result = nested_free(address);
    else if (mode == NXM_MODE_LATE && address != 0)
        result = nxm_serve_free_late(address, real_free, &address);
    else
        result = real_free(&address);
    nxm_leave(mode);
    return result;
}

CUresult hook_cuMemFree_v2(CUdeviceptr address)
{
    struct nxm_thread *thread = nxm_quiet_thread();
    CUcontext context;
    CUresult result;

    if (__builtin_expect(nxm_quiet_enter(thread, NXM_CALLER, NXM_QUIETLY, &context) && nxm_quiet_free(thread, address, &result), 1))
        return result;
    return free_otherwise(address, NXM_CALLER);
}

/* --- pitched and managed: observed ------------------------------------------------------------------------------ */

CUresult hook_cuMemAllocPitch_v2(CUdeviceptr *address, size_t *pitch, size_t width, size_t height, unsigned element)
{
    NXM_NEEDS(cuMemAllocPitch_v2);
    enum nxm_mode mode = nxm_enter(NXM_CALLER, true);
    CUresult result = nxm_real.cuMemAllocPitch_v2(address, pitch, width, height, element);

    if (nxm_observe_made_room(mode, result))
        result = nxm_real.cuMemAllocPitch_v2(address, pitch, width, height, element);
    if (result == CUDA_SUCCESS && mode == NXM_MODE_SERVE)
        nxm_observe(NXM_TABLE_MEMORY, NXM_CLASS_NATIVE, nxm_label_take(NXM_API_cuMemAllocPitch_v2, 0), *address,
                    (uint64_t)*pitch * height);
    else if (mode == NXM_MODE_NESTED)
        nxm_owned_allocated(result, result == CUDA_SUCCESS ? *address : 0, result == CUDA_SUCCESS ? *pitch * height : 0);
    nxm_leave(mode);
    return result;
}

CUresult hook_cuMemAllocManaged(CUdeviceptr *address, size_t bytes, unsigned flags)
{
    NXM_NEEDS(cuMemAllocManaged);
    enum nxm_mode mode = nxm_enter(NXM_CALLER, true);
    CUresult result = nxm_real.cuMemAllocManaged(address, bytes, flags);

    if (nxm_observe_made_room(mode, result))
        result = nxm_real.cuMemAllocManaged(address, bytes, flags);
    if (result == CUDA_SUCCESS && mode == NXM_MODE_SERVE)
        nxm_observe(NXM_TABLE_MEMORY, NXM_CLASS_MANAGED, nxm_label_take(NXM_API_cuMemAllocManaged, bytes), *address, bytes);
    else if (mode == NXM_MODE_NESTED)
        nxm_owned_allocated(result, result == CUDA_SUCCESS ? *address : 0, bytes);
    nxm_leave(mode);
    return result;
}

/* --- totals ----------------------------------------------------------------------------------------------------- */

CUresult hook_cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    NXM_NEEDS(cuMemGetInfo_v2);
    enum nxm_mode mode = nxm_enter(NXM_CALLER, false);

    if (mode == NXM_MODE_SERVE)
        nxm_lane_flush(NULL, 0); /* what has passed counts as free */
    CUresult result = nxm_real.cuMemGetInfo_v2(free_bytes, total_bytes);
    if (mode == NXM_MODE_SERVE && result == CUDA_SUCCESS && free_bytes)
        *free_bytes += nxm_scope_cached_bytes(); /* of the current context's device */
    if (mode == NXM_MODE_SERVE && result == CUDA_SUCCESS && free_bytes && total_bytes)
        nxm_usage_answered(*free_bytes, *total_bytes);
    nxm_leave(mode);
    return result;
}
