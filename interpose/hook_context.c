/* Contexts own synchronous memory: before one is destroyed or reset its blocks go back through their owner, and are counted
 * as reclaimed by reset. Stream-ordered blocks stay. */
#include "capture.h"
#include "context.h"
#include "hook.h"
#include "lane.h"
#include "scope.h"
#include "tally.h"
#include "thread.h"

/* --- what dies with a context --------------------------------------------------------------------------------------- */

struct dying {
    struct nxm_blocks *table;
    uint64_t context;
};

/* Plugin blocks are only counted here: closing their scope pushes them back. The driver's own die by themselves. */
static bool reclaim_block(void *argument, const struct nxm_block *block)
{
    const struct dying *dying = argument;

    if (block->context != dying->context)
        return true;
    if (block->state == NXM_BLOCK_LIVE) /* what the program has freed already is only on its way */
        nxm_tally_add(NXM_AMOUNT_RECLAIMED_BY_RESET, block->bytes);
    if (!block->allocator)
        nxm_blocks_remove(dying->table, block->address, block->id);
    return true;
}

struct going {
    CUcontext context;
    int device;
};

static void push_back(struct nxm_scope *scope, void *argument)
{
    const struct going *going = argument;

    if (scope->context != going->context)
        return;
    nxm_foreign_begin();
    nxm_allocator_push_back(scope->allocator);
    nxm_foreign_end();
}

/* Every allocator of the device may keep something in the context, that of its stream-ordered memory too. */
static void tell_gone(struct nxm_scope *scope, void *argument)
{
    const struct going *going = argument;

    if (scope->device != going->device || !scope->companion.vtable.context_gone)
        return;
    nxm_foreign_begin();
    scope->companion.vtable.context_gone(scope->companion.vtable.ctx, (uint64_t)(uintptr_t)going->context);
    nxm_foreign_end();
}

static void close_context(CUcontext context)
{
    struct going going = { context, nxm_context_device(context) };
    static const enum nxm_table owned_by_contexts[] = { NXM_TABLE_MEMORY, NXM_TABLE_REGISTERED, NXM_TABLE_ARRAYS };

    for (unsigned i = 0; i < sizeof owned_by_contexts / sizeof *owned_by_contexts; i++) {
        struct dying dying = { nxm_table(owned_by_contexts[i]), (uint64_t)(uintptr_t)context };
        nxm_blocks_each(dying.table, reclaim_block, &dying);
    }
    CUstreamCaptureMode mode = nxm_capture_relax(); /* destroying is not forbidden by captures elsewhere */
    nxm_lane_context_gone(context);
    nxm_scope_each(push_back, &going);
    nxm_scope_each(tell_gone, &going);
    nxm_scope_close_context(context);
    nxm_capture_restore(mode);
}

/* Captures are followed from the start of the process, and so is their end. */
static void captures_gone(enum nxm_mode mode, CUcontext context)
{
    if (!nxm_is_child() && nxm_capture_context_gone(context) && mode == NXM_MODE_SERVE)
        nxm_lane_captures_closed();
}

/* The driver lets a context's work end before its memory goes. So must we, whose blocks go first. */
static void let_work_pass(CUcontext context)
{
    CUstreamCaptureMode mode = nxm_capture_relax();
    CUcontext popped = NULL;

    if (nxm_plugin() && nxm_real.cuCtxPushCurrent_v2(context) == CUDA_SUCCESS) {
        nxm_real.cuCtxSynchronize();
        nxm_real.cuCtxPopCurrent_v2(&popped);
    }
    nxm_capture_restore(mode);
}

/* A failed destroy changes nothing, so the handle is tried first: pushing a context is refused for a dead one. */
static bool is_alive(CUcontext context)
{
    CUcontext popped = NULL;

    if (!context || !nxm_real.cuCtxPushCurrent_v2 || nxm_real.cuCtxPushCurrent_v2(context) != CUDA_SUCCESS)
        return false;
    nxm_real.cuCtxPopCurrent_v2(&popped);
    return true;
}

/* --- created contexts ------------------------------------------------------------------------------------------------ */

static bool is_primary(CUcontext context)
{
    return context && nxm_context_primary(nxm_context_device(context)) == context;
}

static void before_destroy(enum nxm_mode mode, CUcontext context)
{
    /* cuCtxDestroy refuses a primary context. */
    if ((mode != NXM_MODE_SERVE && mode != NXM_MODE_LATE) || !is_alive(context) || is_primary(context))
        return;
    if (mode == NXM_MODE_LATE) {
        nxm_scope_lose_context(context);
        return;
    }
    let_work_pass(context);
    close_context(context);
}

CUresult hook_cuCtxDestroy(CUcontext context)
{
    NXM_NEEDS(cuCtxDestroy);
    enum nxm_mode mode = nxm_enter(NXM_CALLER, false);

    before_destroy(mode, context);
    CUresult result = nxm_real.cuCtxDestroy(context);
    if (result == CUDA_SUCCESS)
        captures_gone(mode, context);
    nxm_leave(mode);
    return result;
}

CUresult hook_cuCtxDestroy_v2(CUcontext context)
{
    NXM_NEEDS(cuCtxDestroy_v2);
    enum nxm_mode mode = nxm_enter(NXM_CALLER, false);

    before_destroy(mode, context);
    CUresult result = nxm_real.cuCtxDestroy_v2(context);
    if (result == CUDA_SUCCESS)
        captures_gone(mode, context);
    nxm_leave(mode);
    return result;
}

/* --- primary contexts ------------------------------------------------------------------------------------------------- */

/* Who asks for a device's primary context learns its handle, and so do we: the shim retains none itself. */
CUresult hook_cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    NXM_NEEDS(cuDevicePrimaryCtxRetain);
    CUresult result = nxm_real.cuDevicePrimaryCtxRetain(context, device);

    if (result == CUDA_SUCCESS)
        nxm_context_is_primary(device, *context);
    return result;
}

static bool is_active(CUdevice device)
{
    unsigned flags = 0;
    int active = 0;

    return nxm_real.cuDevicePrimaryCtxGetState &&
           nxm_real.cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS && active;
}

static void before_reset(enum nxm_mode mode, CUdevice device)
{
    bool followed = mode == NXM_MODE_SERVE || mode == NXM_MODE_LATE;
    CUcontext context = followed && is_active(device) ? nxm_context_primary(device) : NULL;

    if (!context)
        return;
    if (mode == NXM_MODE_LATE) {
        nxm_scope_lose_context(context);
        return;
    }
    let_work_pass(context);
    close_context(context);
}

CUresult hook_cuDevicePrimaryCtxReset(CUdevice device)
{
    NXM_NEEDS(cuDevicePrimaryCtxReset);
    enum nxm_mode mode = nxm_enter(NXM_CALLER, false);

    CUcontext primary = nxm_context_primary(device);
    before_reset(mode, device);
    CUresult result = nxm_real.cuDevicePrimaryCtxReset(device);
    if (result == CUDA_SUCCESS && primary)
        captures_gone(mode, primary);
    nxm_leave(mode);
    return result;
}

CUresult hook_cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    NXM_NEEDS(cuDevicePrimaryCtxReset_v2);
    enum nxm_mode mode = nxm_enter(NXM_CALLER, false);

    CUcontext primary = nxm_context_primary(device);
    before_reset(mode, device);
    CUresult result = nxm_real.cuDevicePrimaryCtxReset_v2(device);
    if (result == CUDA_SUCCESS && primary)
        captures_gone(mode, primary);
    nxm_leave(mode);
    return result;
}

/* Only the driver knows which release is the last: others than the program may hold the context. When it was, the memory
 * is gone already, and pushing the blocks back meets a driver that no longer knows them. */
static void after_release(enum nxm_mode mode, CUdevice device, CUresult result)
{
    CUcontext context = NULL;

    if (mode == NXM_MODE_SERVE && result == CUDA_SUCCESS && !is_active(device))
        context = nxm_context_primary(device);
    if (!context)
        return;
    close_context(context);
    captures_gone(mode, context);
}

/* It may be the last one, which is known only when it has happened: what is free already goes back while the context lives. */
static void before_release(enum nxm_mode mode, CUdevice device)
{
    if (mode == NXM_MODE_SERVE && is_active(device))
        nxm_lane_flush(nxm_context_primary(device), 0);
}

CUresult hook_cuDevicePrimaryCtxRelease(CUdevice device)
{
    NXM_NEEDS(cuDevicePrimaryCtxRelease);
    enum nxm_mode mode = nxm_enter(NXM_CALLER, false);

    before_release(mode, device);
    CUresult result = nxm_real.cuDevicePrimaryCtxRelease(device);
    after_release(mode, device, result);
    nxm_leave(mode);
    return result;
}

CUresult hook_cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    NXM_NEEDS(cuDevicePrimaryCtxRelease_v2);
    enum nxm_mode mode = nxm_enter(NXM_CALLER, false);

    before_release(mode, device);
    CUresult result = nxm_real.cuDevicePrimaryCtxRelease_v2(device);
    after_release(mode, device, result);
    nxm_leave(mode);
    return result;
}
