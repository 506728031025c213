#include "giveback.h"

#include <stdatomic.h>

#include "capture.h"
#include "core/log.h"
#include "owes.h"
#include "process.h"
#include "thread.h"

static _Atomic bool drain_owed; /* something is queued in a plugin, and nobody is at a drain of it */
static _Atomic unsigned draining; /* threads at a drain */
_Atomic uint64_t nxm_given;

static void owe_drain(void)
{
    atomic_store(&drain_owed, true);
    nxm_owes_say();
}

static int enqueue(const struct nxm_waiting *entry, struct nxm_error *ret_error)
{
    struct nxm_release outcome;
    int result = nxm_allocator_enqueue(entry->scope->allocator, entry->address, entry->id, NXM_BLOCK_WAITING, NULL, NULL,
                                       &outcome, ret_error);

    if (result == NXM_OK)
        owe_drain();
    else /* a refusal made it live again, but the program has freed it: it goes on waiting */
        nxm_blocks_claim(nxm_table(NXM_TABLE_MEMORY), entry->address, entry->id, NXM_BLOCK_LIVE, NXM_BLOCK_WAITING, NULL);
    return result;
}

/* A mechanism with a companion says itself whether its releases wait, and then it is for all that the driver's own free waits
 * for. One without queues them, which does not wait; its release at once may. */
static bool allowed(const struct nxm_scope *scope, bool queued, enum nxm_moment moment)
{
    const NxmemCudaVtable *companion = &scope->companion.vtable;

    if (companion->struct_size != 0 && !(companion->traits & NXMEM_CUDA_TRAIT_RELEASE_NEVER_WAITS))
        return moment == NXM_MOMENT_CONTEXT && !nxm_capture_open();
    return queued || moment != NXM_MOMENT_ANY;
}

int nxm_giveback(const struct nxm_waiting *entry, enum nxm_moment moment, struct nxm_error *ret_error)
{
    struct nxm_scope *scope = entry->scope;
    struct nxm_release outcome;
    int result = NXM_EUNSUPPORTED;

    if (!nxm_scope_enter(scope))
        return NXM_OK; /* its context is gone, and the block with it */
    CUstreamCaptureMode mode = nxm_capture_relax();
    nxm_foreign_begin();
    if ((nxm_allocator_capabilities(scope->allocator) & NXMEM_CAPABILITY_DEFERRED_RELEASE) && allowed(scope, true, moment))
        result = enqueue(entry, ret_error);
    if (result != NXM_OK && allowed(scope, false, moment))
        result = nxm_allocator_release(scope->allocator, entry->address, entry->id, NXM_BLOCK_WAITING, &outcome, ret_error);
    else if (result != NXM_OK)
        result = NXM_EUNSUPPORTED;
    nxm_foreign_end();
    nxm_capture_restore(mode);
    if (result != NXM_OK && result != NXM_EUNSUPPORTED && result != NXM_ENOENT) /* not there: its address was handed out again */
        nxm_log(NXM_LOG_WARNING, "the plugin refused to release 0x%llx: %s; the block stays in the report",
                (unsigned long long)entry->address, ret_error->text);
    nxm_scope_leave(scope);
    return result;
}

bool nxm_giveback_owed(void)
{
    return atomic_load(&drain_owed) || atomic_load(&draining) != 0;
}

/* What is queued now: what other threads go on queueing keeps nobody here. What is left is owed still: a plugin drains in one thread
 * at a time, and answers others with nothing. */
static void drain_scope(struct nxm_scope *scope, void *except)
{
    struct nxm_allocator_totals totals;

    nxm_allocator_totals(scope->allocator, &totals);
    if (totals.queued != 0 && scope != except) {
        nxm_foreign_begin();
        nxm_allocator_drain(scope->allocator, totals.queued);
        nxm_foreign_end();
        nxm_allocator_totals(scope->allocator, &totals);
    }
    if (totals.queued != 0)
        owe_drain();
}

/* Whoever takes the debt over is seen at it first: it is never out of sight. */
void nxm_giveback_drain(struct nxm_scope *except)
{
    if (!atomic_load_explicit(&drain_owed, memory_order_relaxed))
        return;
    atomic_fetch_add(&draining, 1);
    if (atomic_exchange(&drain_owed, false)) {
        CUstreamCaptureMode mode = nxm_capture_relax();
        nxm_scope_each(drain_scope, except);
        nxm_capture_restore(mode);
    }
    atomic_fetch_add(&nxm_given, 1);
    atomic_fetch_sub(&draining, 1);
}
