#include "scope.h"

#include <sched.h>
#include <string.h>

#include "context.h"
#include "core/lock.h"
#include "core/log.h"
#include "core/mem.h"
#include "process.h"
#include "real.h"
#include "thread.h"

#define CLOSE_SPINS 10000

static struct nxm_lock lock = NXM_LOCK_INIT(NXM_RANK_SCOPE);
static struct nxm_scope *scopes, *gone_scopes;
static char mechanism_name[64];
static nxm_scope_reclaimer *reclaim; /* set before the first scope is opened */
static struct nxm_allocator_totals given_up; /* what allocators that are gone left behind */

/* The record for (context, device), made if there is none. NULL: no memory for it. */
static struct nxm_scope *find_or_make(CUcontext context, int device)
{
    nxm_lock_acquire(&lock);
    struct nxm_scope *scope = scopes;
    while (scope && (scope->context != context || scope->device != device || atomic_load(&scope->closed)))
        scope = scope->next;
    if (!scope && (scope = nxm_mem_new(sizeof *scope)) != NULL) {
        scope->context = context;
        scope->device = device;
        atomic_store(&scope->users, 1);
        scope->next = scopes;
        scopes = scope;
    }
    nxm_lock_release(&lock);
    return scope;
}

static void remember_mechanism(const char *name)
{
    nxm_lock_acquire(&lock);
    if (!mechanism_name[0]) {
        strncpy(mechanism_name, name, sizeof mechanism_name - 1);
    }
    nxm_lock_release(&lock);
}

const char *nxm_scope_mechanism(void)
{
    return mechanism_name[0] ? mechanism_name : NULL;
}

/* A device's synchronous and stream-ordered memory fail for the same reason: said once. */
static void not_served(const struct nxm_scope *scope, const char *what, const char *why)
{
    int device = scope->device;
    const char *then = nxm_refuse_instead() && !scope->unserved ? "allocations will fail" : "stays native";
    static _Atomic uint64_t said;
    uint64_t bit = UINT64_C(1) << (device & 63);
    bool again = atomic_fetch_or(&said, bit) & bit;

    nxm_log(again ? NXM_LOG_DEBUG : NXM_LOG_WARNING, "device %d %s: %s%s", device, then, what, why);
}

/* A plugin for other devices has nothing to say of this one; a plugin for none at all is not what was asked for. */
static bool serves_devices(const struct nxm_module *module)
{
    struct nxm_mechanism mechanism;

    for (size_t i = 0; i < nxm_module_mechanism_count(module); i++) {
        nxm_module_mechanism(module, i, &mechanism);
        if (mechanism.device.tier == NXMEM_TIER_DEVICE)
            return true;
    }
    return false;
}

static void open_scope(struct nxm_scope *scope)
{
    struct nxm_module *module = nxm_plugin();
    NxmemDeviceId device = { NXMEM_TIER_DEVICE, (uint32_t)scope->device };
    struct nxm_allocator_options options = {
        .blocks = nxm_table(NXM_TABLE_MEMORY), .owner = scope, .reclaim = reclaim,
    };
    struct nxm_error error = { 0 };
    size_t mechanism = 0;

    if (nxm_module_find_mechanism(module, nxm_options()->mechanism, device, &mechanism, &error) != NXM_OK) {
        scope->unserved = nxm_options()->mechanism[0] == '\0' && serves_devices(module);
        not_served(scope, "", error.text);
        return;
    }
    nxm_foreign_begin();
    int result = nxm_allocator_open(module, mechanism, &options, &scope->allocator, &error);
    nxm_foreign_end();
    if (result != NXM_OK) {
        scope->allocator = NULL;
        not_served(scope, "cannot open the plugin's allocator: ", error.text);
        return;
    }
    nxm_companion_query(module, scope->allocator, &scope->companion);
    remember_mechanism(nxm_allocator_name(scope->allocator));
    nxm_log(NXM_LOG_INFO, "device %d, %s memory: mechanism %s%s", scope->device,
            scope->context ? "synchronous" : "stream-ordered", nxm_allocator_name(scope->allocator),
            nxm_companion_allocates(&scope->companion) ? " with CUDA companion" : "");
}

static void add_totals(struct nxm_allocator_totals *sum, const struct nxm_allocator_totals *more)
{
    sum->quarantined_blocks += more->quarantined_blocks;
    sum->quarantined_bytes += more->quarantined_bytes;
    sum->queued += more->queued;
    sum->owned_bytes += more->owned_bytes;
    sum->mapped_bytes += more->mapped_bytes;
    sum->views += more->views;
}

static void keep_totals(struct nxm_allocator *allocator)
{
    struct nxm_allocator_totals totals, left = { 0 };

    nxm_allocator_totals(allocator, &totals);
    left.quarantined_blocks = totals.quarantined_blocks;
    left.quarantined_bytes = totals.quarantined_bytes;
    nxm_lock_acquire(&lock);
    add_totals(&given_up, &left);
    nxm_lock_release(&lock);
}

static void add_scope_totals(struct nxm_scope *scope, void *sum)
{
    struct nxm_allocator_totals totals;

    nxm_allocator_totals(scope->allocator, &totals);
    add_totals(sum, &totals);
}

void nxm_scope_totals(struct nxm_allocator_totals *ret_totals)
{
    nxm_lock_acquire(&lock);
    *ret_totals = given_up;
    nxm_lock_release(&lock);
    nxm_scope_each(add_scope_totals, ret_totals);
}

void nxm_scope_reclaim_with(nxm_scope_reclaimer *reclaimer)
{
    reclaim = reclaimer;
}

bool nxm_scope_enter(struct nxm_scope *scope)
{
    unsigned users = atomic_load(&scope->users);

    do {
        if (users == 0 || atomic_load(&scope->closed))
            return false;
    } while (!atomic_compare_exchange_weak(&scope->users, &users, users + 1));
    return true;
}

void nxm_scope_leave(struct nxm_scope *scope)
{
    if (atomic_fetch_sub(&scope->users, 1) != 1)
        return;
    struct nxm_allocator *allocator = scope->allocator; /* last: nobody else looks at it any more */
    if (!allocator)
        return;
    scope->allocator = NULL;
    keep_totals(allocator);
    nxm_foreign_begin();
    nxm_allocator_unref(allocator);
    nxm_foreign_end();
}

/* Entered, and opened if it can be had. Whoever opens is inside, so that a close meanwhile leaves the allocator to it. */
static struct nxm_scope *enter_opened(const struct nxm_order *order)
{
    bool synchronous = order->cuda.kind == NXMEM_CUDA_ORDER_SYNCHRONOUS;
    struct nxm_scope *scope = find_or_make(synchronous ? order->context : NULL, order->device);

    if (!scope || !nxm_scope_enter(scope))
        return NULL;
    if (!nxm_turn_is_done(&scope->opening) && nxm_turn_take(&scope->opening) == NXM_TURN_YOURS) {
        open_scope(scope);
        nxm_turn_finish(&scope->opening);
    }
    if (nxm_turn_is_done(&scope->opening))
        return scope;
    nxm_scope_leave(scope); /* another thread is still at it, and has been for long */
    return NULL;
}

struct nxm_scope *nxm_scope_enter_for(const struct nxm_order *order, bool *ret_refuse)
{
    struct nxm_scope *scope = nxm_plugin() && order->device >= 0 ? enter_opened(order) : NULL;

    *ret_refuse = false;
    if (scope && scope->allocator)
        return scope;
    *ret_refuse = nxm_refuse_instead() && !(scope && scope->unserved);
    if (scope)
        nxm_scope_leave(scope);
    return NULL;
}

static void close_scope(struct nxm_scope *scope)
{
    if (atomic_exchange(&scope->closed, true))
        return;
    /* A program that destroys a context under its own running calls is on its own natively too: bounded. */
    for (int i = 0; i < CLOSE_SPINS && atomic_load(&scope->users) > 1; i++)
        sched_yield();
    nxm_scope_leave(scope);
}

static struct nxm_scope *next_open(struct nxm_scope *after)
{
    nxm_lock_acquire(&lock);
    struct nxm_scope *scope = after ? after->next : scopes;
    nxm_lock_release(&lock);
    return scope;
}

/* Off the list that lookups walk. Whoever stands on it goes on from it: it keeps its `next`, and is never freed. */
static void unlink_scope(struct nxm_scope *gone)
{
    nxm_lock_acquire(&lock);
    for (struct nxm_scope **link = &scopes; *link; link = &(*link)->next) {
        if (*link == gone) {
            *link = gone->next;
            gone->gone_before = gone_scopes;
            gone_scopes = gone;
            break;
        }
    }
    nxm_lock_release(&lock);
}

void nxm_scope_close_context(CUcontext context)
{
    for (struct nxm_scope *scope = next_open(NULL); scope; scope = next_open(scope)) {
        if (scope->context != context)
            continue;
        close_scope(scope);
        unlink_scope(scope);
    }
    nxm_context_forget(context);
}

void nxm_scope_lose_context(CUcontext context)
{
    for (struct nxm_scope *scope = next_open(NULL); scope; scope = next_open(scope)) {
        if (scope->context == context)
            atomic_store(&scope->lost, true);
    }
}

void nxm_scope_close_all(void)
{
    for (struct nxm_scope *scope = next_open(NULL); scope; scope = next_open(scope))
        close_scope(scope);
}

void nxm_scope_each(void (*visit)(struct nxm_scope *scope, void *argument), void *argument)
{
    for (struct nxm_scope *scope = next_open(NULL); scope; scope = next_open(scope)) {
        if (!nxm_scope_enter(scope))
            continue;
        if (nxm_turn_is_done(&scope->opening) && scope->allocator)
            visit(scope, argument);
        nxm_scope_leave(scope);
    }
}

struct cached {
    int device;
    uint64_t bytes;
};

static void add_cached(struct nxm_scope *scope, void *argument)
{
    struct cached *cached = argument;
    uint64_t bytes = 0;

    if (scope->device != cached->device || !scope->companion.vtable.cached_bytes)
        return;
    nxm_foreign_begin();
    NxmemStatus status = scope->companion.vtable.cached_bytes(scope->companion.vtable.ctx, &bytes);
    nxm_foreign_end();
    if (status.code == NXMEM_STATUS_OK)
        cached->bytes += bytes;
}

uint64_t nxm_scope_cached_bytes(void)
{
    struct cached cached = { -1, 0 };
    CUdevice device = -1;

    if (nxm_plugin() && nxm_real.cuCtxGetDevice && nxm_real.cuCtxGetDevice(&device) == CUDA_SUCCESS) {
        cached.device = device;
        nxm_scope_each(add_cached, &cached);
    }
    return cached.bytes;
}
