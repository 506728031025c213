/* Contexts own synchronous memory: before one is destroyed or reset its blocks go back through their owner, and are counted
 * as reclaimed by reset. Stream-ordered blocks stay. */
#include "capture.h"
#include "context.h"
#include "core/nap.h"
#include <stdatomic.h>

#include "hook.h"
#include "lane.h"
#include "mark.h"
#include "peers.h"
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
    if (block->state == NXM_BLOCK_LIVE && block->class_ != NXM_CLASS_IMPORTED) /* what the program has freed already is only on its way */
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
    (void)argument;
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

static void close_context(struct nxm_ending *ending, bool alive)
{
    CUcontext context = ending->context;
    struct going going = { context, nxm_context_device(context) };
    static const enum nxm_table owned_by_contexts[] = { NXM_TABLE_MEMORY, NXM_TABLE_REGISTERED, NXM_TABLE_ARRAYS };

    nxm_scope_shut_context(ending);
    for (unsigned i = 0; i < sizeof owned_by_contexts / sizeof *owned_by_contexts; i++) {
        struct dying dying = { nxm_table(owned_by_contexts[i]), (uint64_t)(uintptr_t)context };
        nxm_blocks_each(dying.table, reclaim_block, &dying);
    }
    CUstreamCaptureMode mode = nxm_capture_relax(); /* destroying is not forbidden by captures elsewhere */
    nxm_mark_context_gone(context);
    nxm_lane_context_gone(context, alive);
    nxm_scope_each_shut(ending, push_back, NULL);
    nxm_scope_each_shut(ending, tell_gone, &going);
    nxm_scope_each(tell_gone, &going);
    nxm_peers_context_gone(context, true);
    nxm_scope_give_up(ending);
    nxm_capture_restore(mode);
}

/* Captures are followed from the start of the process, and so is their end. */
static void captures_gone(enum nxm_mode mode, CUcontext context)
{
    if (!nxm_is_child() && nxm_capture_context_gone(context) && mode == NXM_MODE_SERVE)
        nxm_lane_captures_closed();
}

static bool is_refused_by_capture(CUresult result)
{
    return result >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED && result <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
}

/* The driver lets a context's work end before its memory goes. So must we, whose blocks go first. An open capture of the context
 * forbids the wait, and ends with the context anyway. false: it cannot be waited for here. */
static bool let_work_pass(CUcontext context)
{
    CUstreamCaptureMode mode = nxm_capture_relax();
    CUcontext popped = NULL;
    CUresult result = CUDA_SUCCESS;

    if (nxm_plugin() && nxm_real.cuCtxPushCurrent_v2(context) == CUDA_SUCCESS) {
        result = nxm_real.cuCtxSynchronize();
        if (is_refused_by_capture(result)) {
            nxm_capture_end_all(context);
            result = nxm_real.cuCtxSynchronize();
        }
        nxm_real.cuCtxPopCurrent_v2(&popped);
    }
    nxm_capture_restore(mode);
    return !is_refused_by_capture(result);
}

/* A failed destroy changes nothing, so the handle is tried first: pushing a context is refused for a dead one. What could not
 * be said either way is closed when its end has succeeded. */
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

/* true: the blocks must go after the context, whose work the driver's own call waits for. */
static bool before_end(enum nxm_mode mode, struct nxm_ending *ending)
{
    if (mode == NXM_MODE_LATE) {
        nxm_scope_lose_context(ending->context);
        return false;
    }
    if (!let_work_pass(ending->context))
        return true;
    close_context(ending, true);
    return false;
}

static void after_end(enum nxm_mode mode, CUcontext context, CUresult result, struct nxm_ending *to_close)
{
    if (result != CUDA_SUCCESS)
        return;
    if (to_close)
        close_context(to_close, false);
    captures_gone(mode, context);
}

static bool is_followed(enum nxm_mode mode)
{
    return mode == NXM_MODE_SERVE || mode == NXM_MODE_LATE;
}

static CUresult destroy(const void *caller, CUcontext context, __typeof__(nxm_real.cuCtxDestroy_v2) real)
{
    enum nxm_mode mode = nxm_enter(caller, false);
    /* cuCtxDestroy refuses a primary context. */
    bool may_end = context && is_followed(mode) && !is_primary(context);
    struct nxm_ending ending;

    if (may_end)
        nxm_scope_ending_begin(&ending, context);
    bool to_close = may_end && (is_alive(context) ? before_end(mode, &ending) : mode == NXM_MODE_SERVE);
    CUresult result = real(context);

    after_end(mode, context, result, to_close ? &ending : NULL);
    if (may_end)
        nxm_scope_ending_end(&ending);
    nxm_leave(mode);
    return result;
}

CUresult hook_cuCtxDestroy(CUcontext context)
{
    NXM_NEEDS(cuCtxDestroy);
    return destroy(NXM_CALLER, context, nxm_real.cuCtxDestroy);
}

CUresult hook_cuCtxDestroy_v2(CUcontext context)
{
    NXM_NEEDS(cuCtxDestroy_v2);
    return destroy(NXM_CALLER, context, nxm_real.cuCtxDestroy_v2);
}

/* Only the driver counts who has attached: whether this was the last is known afterwards. */
CUresult hook_cuCtxDetach(CUcontext context)
{
    NXM_NEEDS(cuCtxDetach);
    enum nxm_mode mode = nxm_enter(NXM_CALLER, false);
    bool may_end = is_followed(mode) && is_alive(context) && !is_primary(context);
    struct nxm_ending ending;
    CUresult result = nxm_real.cuCtxDetach(context);

    if (may_end && result == CUDA_SUCCESS && !is_alive(context)) {
        if (mode == NXM_MODE_LATE)
            nxm_scope_lose_context(context);
        nxm_scope_ending_begin(&ending, context);
        after_end(mode, context, result, mode == NXM_MODE_SERVE ? &ending : NULL);
        nxm_scope_ending_end(&ending);
    }
    nxm_leave(mode);
    return result;
}

/* --- primary contexts ------------------------------------------------------------------------------------------------- */

/* A primary context has the same handle when it comes back, and whether a release was the last is known only afterwards. So no
 * retain may fall between a release and what follows from it: each waits until the other kind is done, one driver call long. */
static _Atomic unsigned retaining, releasing;

static void wait_while(_Atomic unsigned *busy)
{
    for (int i = 0; i < 50000 && atomic_load(busy) != 0; i++) /* five seconds and more: then something else is wrong */
        nxm_nap(100000);
}

static void retain_begin(void)
{
    for (int attempt = 0; attempt < 100; attempt++) {
        atomic_fetch_add(&retaining, 1);
        if (atomic_load(&releasing) == 0)
            return;
        atomic_fetch_sub(&retaining, 1);
        wait_while(&releasing);
    }
    atomic_fetch_add(&retaining, 1);
}

/* Who asks for a device's primary context learns its handle, and so do we: the shim retains none itself. */
CUresult hook_cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    NXM_NEEDS(cuDevicePrimaryCtxRetain);
    if (nxm_is_child() || nxm_is_plugins_call(NXM_CALLER)) /* the plugin may be what a release is waiting for */
        return nxm_real.cuDevicePrimaryCtxRetain(context, device);
    nxm_process_watch_forks();
    retain_begin();
    CUresult result = nxm_real.cuDevicePrimaryCtxRetain(context, device);
    if (result == CUDA_SUCCESS)
        nxm_context_is_primary(device, *context);
    atomic_fetch_sub(&retaining, 1);
    return result;
}

/* Unanswered, the context itself is tried. */
static bool is_active(CUdevice device)
{
    unsigned flags = 0;
    int active = 0;

    if (nxm_real.cuDevicePrimaryCtxGetState && nxm_real.cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS)
        return active;
    return is_alive(nxm_context_primary(device));
}

static CUresult reset(const void *caller, CUdevice device, __typeof__(nxm_real.cuDevicePrimaryCtxReset_v2) real)
{
    enum nxm_mode mode = nxm_enter(caller, false);
    CUcontext primary = nxm_is_child() ? NULL : nxm_context_primary(device);
    bool may_end = primary && is_followed(mode) && is_active(device);
    struct nxm_ending ending;

    if (may_end)
        nxm_scope_ending_begin(&ending, primary);
    bool to_close = may_end && before_end(mode, &ending);
    CUresult result = real(device);

    if (primary)
        after_end(mode, primary, result, to_close ? &ending : NULL);
    if (may_end)
        nxm_scope_ending_end(&ending);
    nxm_leave(mode);
    return result;
}

CUresult hook_cuDevicePrimaryCtxReset(CUdevice device)
{
    NXM_NEEDS(cuDevicePrimaryCtxReset);
    return reset(NXM_CALLER, device, nxm_real.cuDevicePrimaryCtxReset);
}

CUresult hook_cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    NXM_NEEDS(cuDevicePrimaryCtxReset_v2);
    return reset(NXM_CALLER, device, nxm_real.cuDevicePrimaryCtxReset_v2);
}

/* It may be the last one: what is free already goes back while the context lives. */
static void release_begin(enum nxm_mode mode, CUdevice device)
{
    if (mode == NXM_MODE_NESTED || nxm_is_child())
        return;
    nxm_process_watch_forks();
    atomic_fetch_add(&releasing, 1);
    wait_while(&retaining);
    if (mode == NXM_MODE_SERVE && is_active(device))
        nxm_lane_flush(nxm_context_primary(device), 0);
}

/* Only the driver knows which release is the last: others than the program may hold the context. When it was, the memory
 * is gone already, and pushing the blocks back meets a driver that no longer knows them. */
static void release_end(enum nxm_mode mode, CUdevice device, CUresult result)
{
    if (mode == NXM_MODE_NESTED || nxm_is_child())
        return;
    CUcontext context = result == CUDA_SUCCESS && !is_active(device) ? nxm_context_primary(device) : NULL;
    struct nxm_ending ending;

    if (context && mode == NXM_MODE_SERVE) {
        nxm_scope_ending_begin(&ending, context);
        close_context(&ending, false);
        nxm_scope_ending_end(&ending);
    }
    if (context)
        captures_gone(mode, context);
    atomic_fetch_sub(&releasing, 1);
}

static CUresult release(const void *caller, CUdevice device, __typeof__(nxm_real.cuDevicePrimaryCtxRelease_v2) real)
{
    enum nxm_mode mode = nxm_enter(caller, false);

    release_begin(mode, device);
    CUresult result = real(device);
    release_end(mode, device, result);
    nxm_leave(mode);
    return result;
}

CUresult hook_cuDevicePrimaryCtxRelease(CUdevice device)
{
    NXM_NEEDS(cuDevicePrimaryCtxRelease);
    return release(NXM_CALLER, device, nxm_real.cuDevicePrimaryCtxRelease);
}

CUresult hook_cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    NXM_NEEDS(cuDevicePrimaryCtxRelease_v2);
    return release(NXM_CALLER, device, nxm_real.cuDevicePrimaryCtxRelease_v2);
}

/* --- green contexts ---------------------------------------------------------------------------------------------------- */

/* The primary context, which the green one holds: taken once more, and given back, for its handle. */
static CUcontext primary_of(CUdevice device)
{
    CUcontext primary = nxm_context_primary(device);

    if (!primary && nxm_real.cuDevicePrimaryCtxRetain && nxm_real.cuDevicePrimaryCtxRelease_v2 &&
        nxm_real.cuDevicePrimaryCtxRetain(&primary, device) == CUDA_SUCCESS) {
        nxm_context_is_primary(device, primary);
        nxm_real.cuDevicePrimaryCtxRelease_v2(device);
    }
    return primary;
}

/* Nobody can make a green context current without this. */
CUresult hook_cuCtxFromGreenCtx(CUcontext *context, CUgreenCtx green)
{
    NXM_NEEDS(cuCtxFromGreenCtx);
    CUresult result = nxm_real.cuCtxFromGreenCtx(context, green);

    if (result == CUDA_SUCCESS && !nxm_is_child()) {
        nxm_process_watch_forks();
        int device = nxm_context_device(*context);
        if (device >= 0)
            nxm_context_is_green(*context, primary_of(device));
    }
    return result;
}

/* Its streams and events go, and what waits behind them must be known to have passed. */
static void green_ends(CUcontext context, int device)
{
    struct going going = { context, device };
    uint64_t waiting, bytes;

    nxm_lane_amount(&waiting, &bytes);
    if ((waiting > 0 || nxm_mark_any()) && let_work_pass(context)) {
        nxm_mark_context_gone(context);
        nxm_lane_context_gone(context, true);
    }
    nxm_scope_each(tell_gone, &going);
}

/* What was allocated in it stays, with the primary context; unless that one was held by the green one alone. */
CUresult hook_cuGreenCtxDestroy(CUgreenCtx green)
{
    NXM_NEEDS(cuGreenCtxDestroy);
    enum nxm_mode mode = nxm_enter(NXM_CALLER, false);
    CUcontext context = NULL;
    int device = -1;

    if (is_followed(mode) && nxm_real.cuCtxFromGreenCtx && nxm_real.cuCtxFromGreenCtx(&context, green) == CUDA_SUCCESS)
        device = nxm_context_device(context);
    if (device >= 0 && mode == NXM_MODE_SERVE)
        green_ends(context, device);
    if (device >= 0)
        release_begin(mode, device);
    CUresult result = nxm_real.cuGreenCtxDestroy(green);
    if (device >= 0)
        release_end(mode, device, result);
    if (device >= 0 && result == CUDA_SUCCESS)
        nxm_context_forget(context);
    nxm_leave(mode);
    return result;
}
