/* cuMemAlloc and cuMemFree in place, for when nothing but that is going on: the process is calm (calm.h), the thread is where it was the
 * last time, nobody is inside anything on it, and the mechanism takes part both ways. Everything else is done the general way
 * (serve.h), from the beginning or from where a call of the plugin has led to. core/quiet.h is the half of it that knows the books.
 *
 * Such a call counts nowhere: it announces itself on its thread's own line of the door, with the scope that it is in. That is looked at by
 * whoever closes the door or the scope. Any thread; no lock across the plugin.
 */
#ifndef NXM_QUIET_CALL_H
#define NXM_QUIET_CALL_H

#include <stdbool.h>

#include "calm.h"
#include "core/quiet.h"
#include "core/stack.h"
#include "door.h"
#include "label.h"
#include "lane.h"
#include "process.h"
#include "real.h"
#include "scope.h"
#include "serve.h"
#include "thread.h"

#define NXM_QUIET_INLINE static inline __attribute__((always_inline))

/* The calling thread's record, as a pointer that is worked out once. */
NXM_QUIET_INLINE struct nxm_thread *nxm_quiet_thread(void)
{
    struct nxm_thread *thread = &nxm_thread;

    __asm__("" : "+r"(thread));
    return thread;
}

NXM_QUIET_INLINE void nxm_quiet_leave(struct nxm_thread *thread, struct nxm_scope *scope)
{
    nxm_door_announce(thread->announcement, NULL);
    if (__builtin_expect(nxm_load_is_set(&scope->closed), 0))
        nxm_scope_leave_closed(scope);
    atomic_store_explicit(&thread->busy, 0, memory_order_relaxed);
}

void nxm_quiet_retreat(void);

/* Into the scope of the thread's current context, place.scope, for a call of the program: leave it afterwards. False: not quietly. That there is
 * one, that it is open and that no context has changed is all said by the number of the calm. `busy`: NXM_QUIETLY, or what an allocation has. */
NXM_QUIET_INLINE bool nxm_quiet_enter(struct nxm_thread *thread, const void *caller, uint32_t busy, CUcontext *context)
{
    _Atomic uint64_t *announcement = thread->announcement;

    if (__builtin_expect(!nxm_load_is_32(&thread->busy, 0) || !announcement, 0))
        return false;
    if (__builtin_expect((uintptr_t)caller >= nxm_process_plugin_code.low, 0)) {
        __asm__(""); /* asked in this order: a program lies below its plugins, most often */
        if (nxm_code_contains(nxm_process_plugin_code, caller))
            return false;
    }
    /* First: a signal handler of this thread announces nothing in our place. */
    atomic_store_explicit(&thread->begun, busy, memory_order_relaxed);
    nxm_door_announce(announcement, thread->place.scope);
    *context = NULL; /* and so it stays when nobody can say */
    if (__builtin_expect(nxm_is_calm(thread->place.calm) && (nxm_real.cuCtxGetCurrent(context), *context == thread->place.context), 1))
        return true;
    nxm_quiet_retreat();
    return false;
}

/* Not none at all, and some that can be rounded up. */
static inline bool nxm_quiet_may_ask(size_t bytes)
{
    return bytes - 1 <= SIZE_MAX - NXM_DEVICE_ALIGN;
}

/* What the plugin was asked, and what it said. In one piece, so that only one address is kept for when it was not plain. */
struct nxm_quiet_asked {
    uint64_t bytes, id;
    uint32_t stack;
    NxmemAllocResult answer;
};
struct nxm_quiet_freed {
    uint64_t ticket;
    struct nxm_quiet_release release;
};

/* They leave the scope. */
CUresult nxm_quiet_not_plainly(struct nxm_scope *scope, const struct nxm_quiet_asked *asked, const NxmemStatus *status,
                               CUdeviceptr *ret_address);
CUresult nxm_quiet_not_over(struct nxm_scope *scope, const struct nxm_quiet_freed *freed, const NxmemStatus *status);

/* In the scope that was entered, which is left. */
NXM_QUIET_INLINE CUresult nxm_quiet_allocate(struct nxm_thread *thread, CUdeviceptr *ret_address, size_t bytes)
{
    struct nxm_scope *scope = thread->place.scope;
    uint32_t stack = nxm_options()->stacks != 0 ? nxm_stack_capture(nxm_options()->stacks) : 0;
    struct nxm_blocks_place place;
    struct nxm_record *record = NULL;
    struct nxm_quiet_asked asked;
    uint64_t id = nxm_quiet_request(scope->allocator, bytes, &thread->words, &asked.answer);

    nxm_lock_assert_none();
    NxmemStatus status = scope->companion.vtable.allocate_on(scope->companion.vtable.ctx, &scope->order, &thread->words.request, &asked.answer);
    struct nxm_allocator *allocator = scope->allocator;
    if (__builtin_expect(status.code == NXMEM_STATUS_OK, 1))
        record = nxm_quiet_room(allocator, &asked.answer, bytes, NXM_DEVICE_ALIGN, thread->here, &place);
    if (__builtin_expect(!record, 0)) {
        asked.bytes = bytes;
        asked.id = id;
        asked.stack = stack;
        atomic_store_explicit(&thread->busy, NXM_QUIETLY, memory_order_relaxed);
        return nxm_quiet_not_plainly(scope, &asked, &status, ret_address);
    }
    struct nxm_block block = {
        .address = (uintptr_t)asked.answer.ptr,
        .bytes = bytes,
        .align = NXM_DEVICE_ALIGN,
        .id = id,
        .allocator = allocator,
        .context = (uint64_t)(uintptr_t)scope->context,
        .owned = bytes,
        .mapped = bytes,
        .tag = (uint64_t)(uintptr_t)scope,
        .stack = stack,
        .device = scope->device,
        .api = (uint16_t)nxm_label_take_on(thread, NXM_API_cuMemAlloc_v2, bytes),
        .class_ = NXM_CLASS_DEVICE,
        .state = NXM_BLOCK_LIVE,
        .flags = NXM_BLOCK_PLAIN,
    };
    nxm_quiet_record(place, record, &block);
    *ret_address = block.address;
    nxm_quiet_leave(thread, scope);
    return CUDA_SUCCESS;
}

/* False: it is no such block, and nothing has happened; the scope has been left either way. */
NXM_QUIET_INLINE bool nxm_quiet_free(struct nxm_thread *thread, CUdeviceptr address, CUresult *ret_result)
{
    struct nxm_scope *scope = thread->place.scope;
    struct nxm_quiet_freed freed;

    if (__builtin_expect(!nxm_quiet_take(scope->allocator, address, thread->here, &thread->words, &freed.release), 0)) {
        nxm_quiet_leave(thread, scope);
        return false;
    }
    freed.ticket = 0;
    nxm_label_take_on(thread, NXM_API_cuMemFree_v2, 0);
    nxm_lock_assert_none();
    NxmemStatus status = scope->companion.vtable.enqueue_release_on(scope->companion.vtable.ctx, &scope->order, &thread->words.allocation,
                                                                    &freed.ticket);
    if (__builtin_expect(!nxm_quiet_settle(scope->allocator, &freed.release, thread->here, status.code == NXMEM_STATUS_OK), 0)) {
        *ret_result = nxm_quiet_not_over(scope, &freed, &status);
        return true;
    }
    nxm_quiet_leave(thread, scope);
    *ret_result = CUDA_SUCCESS;
    return true;
}

#endif
