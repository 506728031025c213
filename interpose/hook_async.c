/* Stream-ordered memory: cuMemAllocAsync, cuMemAllocFromPoolAsync, cuMemFreeAsync, each in two forms. */
#include <stdatomic.h>

#include "hook.h"
#include "observe.h"
#include "owned.h"
#include "pool.h"
#include "serve.h"
#include "thread.h"

/* One call in either form: the form decides what stream 0 means. */
struct call {
    CUdeviceptr address;
    size_t bytes;
    CUmemoryPool pool; /* NULL: the device's current one */
    CUstream stream;
    bool per_thread;
};

static CUresult real_alloc(void *argument, CUdeviceptr *ret_address)
{
    const struct call *c = argument;

    if (c->pool)
        return c->per_thread ? nxm_real.cuMemAllocFromPoolAsync_ptsz(ret_address, c->bytes, c->pool, c->stream)
                             : nxm_real.cuMemAllocFromPoolAsync(ret_address, c->bytes, c->pool, c->stream);
    return c->per_thread ? nxm_real.cuMemAllocAsync_ptsz(ret_address, c->bytes, c->stream)
                         : nxm_real.cuMemAllocAsync(ret_address, c->bytes, c->stream);
}

static CUresult real_free(void *argument)
{
    const struct call *c = argument;

    return c->per_thread ? nxm_real.cuMemFreeAsync_ptsz(c->address, c->stream) : nxm_real.cuMemFreeAsync(c->address, c->stream);
}

/* Only the device's default pool is stood in for: a pool of the program's own is its business. */
static CUresult serve_alloc(struct call *c, enum nxm_api api, CUdeviceptr *ret_address)
{
    struct nxm_order order;
    bool refuse = false;

    if (!ret_address || c->bytes == 0)
        return real_alloc(c, ret_address);
    bool placed = nxm_order_stream(c->stream, c->per_thread, &order) == CUDA_SUCCESS;
    if (placed && order.capturing) /* a node of the graph, whose memory the graph owns */
        return nxm_serve_native(&order, c->bytes, NXM_CLASS_GRAPH, api, 0, real_alloc, c, ret_address);
    bool ours = placed && (c->pool ? nxm_pool_is_default(c->pool, order.device) : !nxm_pool_replaced(order.device));
    if (ours && c->pool) {
        order.cuda.kind = NXMEM_CUDA_ORDER_POOL;
        order.cuda.pool = (uint64_t)(uintptr_t)c->pool;
    }
    struct nxm_scope *scope = ours ? nxm_scope_enter_for(&order, &refuse) : NULL;
    if (scope) {
        CUresult result = nxm_serve_allocate(scope, &order, c->bytes, api, real_alloc, c, ret_address);
        nxm_scope_leave(scope);
        return result;
    }
    if (refuse)
        return CUDA_ERROR_OUT_OF_MEMORY;
    return nxm_serve_native(placed ? &order : NULL, c->bytes, ours || !placed ? NXM_CLASS_NATIVE : NXM_CLASS_POOL, api,
                            (uint64_t)(uintptr_t)c->pool, real_alloc, c, ret_address);
}

static CUresult allocate(struct call *c, enum nxm_api own, const void *caller, CUdeviceptr *ret_address)
{
    enum nxm_mode mode = nxm_enter(caller, true);
    CUresult result;

    if (mode == NXM_MODE_SERVE)
        result = serve_alloc(c, nxm_label_take(own, c->bytes), ret_address);
    else
        result = real_alloc(c, ret_address);
    if (mode == NXM_MODE_NESTED)
        nxm_owned_allocated(result, result == CUDA_SUCCESS ? *ret_address : 0, c->bytes);
    nxm_leave(mode);
    return result;
}

CUresult hook_cuMemAllocAsync(CUdeviceptr *address, size_t bytes, CUstream stream)
{
    NXM_NEEDS(cuMemAllocAsync);
    return allocate(&(struct call){ .bytes = bytes, .stream = stream }, NXM_API_cuMemAllocAsync, NXM_CALLER, address);
}

CUresult hook_cuMemAllocAsync_ptsz(CUdeviceptr *address, size_t bytes, CUstream stream)
{
    NXM_NEEDS(cuMemAllocAsync_ptsz);
    return allocate(&(struct call){ .bytes = bytes, .stream = stream, .per_thread = true }, NXM_API_cuMemAllocAsync_ptsz,
                    NXM_CALLER, address);
}

/* A NULL pool is an error that the driver itself must name. */
CUresult hook_cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t bytes, CUmemoryPool pool, CUstream stream)
{
    NXM_NEEDS(cuMemAllocFromPoolAsync);
    if (!pool)
        return nxm_real.cuMemAllocFromPoolAsync(address, bytes, pool, stream);
    return allocate(&(struct call){ .bytes = bytes, .pool = pool, .stream = stream }, NXM_API_cuMemAllocFromPoolAsync,
                    NXM_CALLER, address);
}

CUresult hook_cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *address, size_t bytes, CUmemoryPool pool, CUstream stream)
{
    NXM_NEEDS(cuMemAllocFromPoolAsync_ptsz);
    if (!pool)
        return nxm_real.cuMemAllocFromPoolAsync_ptsz(address, bytes, pool, stream);
    return allocate(&(struct call){ .bytes = bytes, .pool = pool, .stream = stream, .per_thread = true },
                    NXM_API_cuMemAllocFromPoolAsync_ptsz, NXM_CALLER, address);
}

static CUresult serve_free(struct call *c)
{
    struct nxm_order order;

    if (c->address == 0)
        return real_free(c);
    CUresult result = nxm_order_stream(c->stream, c->per_thread, &order);
    if (result == CUDA_SUCCESS)
        return nxm_serve_free(c->address, &order, real_free, c);
    /* A bad stream, no context: the driver has said so, or says so. A plugin's block stays live, and is not the driver's to free. */
    return nxm_is_plugins_block(c->address) ? result : real_free(c);
}

/* Also at the end a stream that is gone, or no context, is an error of its own. */
static CUresult free_late(struct call *c)
{
    struct nxm_order order;
    CUresult result = nxm_table(NXM_TABLE_MEMORY) && nxm_is_plugins_block(c->address)
                          ? nxm_order_stream(c->stream, c->per_thread, &order)
                          : CUDA_SUCCESS;

    return result == CUDA_SUCCESS ? nxm_serve_free_late(c->address, real_free, c) : result;
}

static CUresult release(struct call *c, enum nxm_api own, const void *caller)
{
    enum nxm_mode mode = nxm_enter(caller, false);
    CUresult result;

    if (mode == NXM_MODE_SERVE) {
        nxm_label_take(own, 0);
        result = serve_free(c);
    } else if (mode == NXM_MODE_NESTED) {
        uint64_t taken = nxm_owned_take(c->address);
        result = nxm_owned_freed(real_free(c), c->address, taken);
    } else if (mode == NXM_MODE_LATE && c->address != 0) {
        result = free_late(c);
    } else {
        result = real_free(c);
    }
    nxm_leave(mode);
    return result;
}

CUresult hook_cuMemFreeAsync(CUdeviceptr address, CUstream stream)
{
    NXM_NEEDS(cuMemFreeAsync);
    return release(&(struct call){ .address = address, .stream = stream }, NXM_API_cuMemFreeAsync, NXM_CALLER);
}

CUresult hook_cuMemFreeAsync_ptsz(CUdeviceptr address, CUstream stream)
{
    NXM_NEEDS(cuMemFreeAsync_ptsz);
    return release(&(struct call){ .address = address, .stream = stream, .per_thread = true }, NXM_API_cuMemFreeAsync_ptsz,
                   NXM_CALLER);
}
