#include "scope.h"

#include <sched.h>
#include <string.h>

#include "calm.h"
#include "context.h"
#include "core/journal.h"
#include "core/lock.h"
#include "core/log.h"
#include "core/mem.h"
#include "core/nap.h"
#include "core/quiet.h"
#include "door.h"
#include "process.h"
#include "real.h"
#include "stale.h"
#include "thread.h"

#define CLOSE_SPINS 10000
#define CLOSE_DRAINS 16 /* a tenth of a second in all */

static struct nxm_lock lock = NXM_LOCK_INIT(NXM_RANK_SCOPE);
static struct nxm_scope *scopes, *gone_scopes;
static struct nxm_ending *endings;
static char mechanism_name[64];
static nxm_scope_reclaimer *reclaim; /* set before the first scope is opened; so is the next */
static void (*greet)(struct nxm_scope *scope);
static struct nxm_allocator_totals given_up; /* what allocators that are gone left behind */

/* Counts that a scope has left behind, all of them 0 again: a list through what lies apart in them. */
static struct nxm_spread *spare_counts;

static struct nxm_spread **link_of(struct nxm_spread *counts)
{
    return (struct nxm_spread **)(void *)counts->lines[0].apart;
}

static struct nxm_spread *take_counts(void)
{
    struct nxm_spread *counts = spare_counts;

    if (!counts)
        return nxm_mem_new(sizeof *counts);
    spare_counts = *link_of(counts);
    return counts;
}

/* A release that is still queued keeps them: its end lowers one. */
static void leave_counts(struct nxm_scope *scope)
{
    if (nxm_spread_sum(scope->counts, NXM_SCOPE_PINS) != 0)
        return;
    nxm_lock_acquire(&lock);
    *link_of(scope->counts) = spare_counts;
    spare_counts = scope->counts;
    nxm_lock_release(&lock);
}

static struct nxm_scope *make(CUcontext context, int device)
{
    struct nxm_scope *scope = nxm_mem_new(sizeof *scope);

    if (!scope || !(scope->counts = take_counts())) {
        nxm_mem_free(scope);
        return NULL;
    }
    scope->context = context;
    scope->device = device;
    scope->next = scopes;
    return scopes = scope;
}

void nxm_scope_ending_begin(struct nxm_ending *ending, CUcontext context)
{
    ending->context = context;
    ending->shut = NULL;
    nxm_lock_acquire(&lock);
    ending->next = endings;
    endings = ending;
    nxm_lock_release(&lock);
}

void nxm_scope_ending_end(struct nxm_ending *ending)
{
    nxm_lock_acquire(&lock);
    struct nxm_ending **link = &endings;
    while (*link && *link != ending)
        link = &(*link)->next;
    if (*link)
        *link = ending->next;
    nxm_lock_release(&lock);
}

static bool is_ending(CUcontext context) /* with the lock; stream-ordered memory, of no context, never is */
{
    const struct nxm_ending *ending = endings;

    while (ending && ending->context != context)
        ending = ending->next;
    return ending;
}

/* The record for (context, device), made if there is none. NULL: no memory for it, or the context is ending. */
static struct nxm_scope *find_or_make(CUcontext context, int device)
{
    nxm_lock_acquire(&lock);
    struct nxm_scope *scope = scopes;
    while (scope && (scope->context != context || scope->device != device || atomic_load(&scope->closed)))
        scope = scope->next;
    if (!scope && !is_ending(context))
        scope = make(context, device);
    nxm_lock_release(&lock);
    return scope;
}

static void remember_mechanism(const char *name)
{
    nxm_lock_acquire(&lock);
    if (!mechanism_name[0]) {
        strncpy(mechanism_name, name, sizeof mechanism_name - 1);
        if (nxm_journal())
            nxm_journal_text(nxm_journal()->mechanism, sizeof nxm_journal()->mechanism, name);
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

/* Counted first and looked at second, as closing sets first and looks second: one of the two sees the other. */
static bool pin_scope(void *argument)
{
    struct nxm_scope *scope = argument;

    if (atomic_load(&scope->closed))
        return false;
    nxm_spread_raise(scope->counts, NXM_SCOPE_PINS, 1);
    if (!atomic_load(&scope->closed))
        return true;
    nxm_spread_lower(scope->counts, NXM_SCOPE_PINS, 1);
    return false;
}

static void unpin_scope(void *argument)
{
    struct nxm_scope *scope = argument; /* never freed, so that a late completion may still come here */

    nxm_spread_note_at(scope->counts, nxm_spread_here(), NXM_SCOPE_PINS, UINT64_MAX);
}

/* Synchronous memory of a mechanism that takes part both ways, and wants to hear of nothing afterwards. */
static void allow_quiet(struct nxm_scope *scope)
{
    const NxmemCudaVtable *companion = &scope->companion.vtable;

    if (!scope->context || !companion->allocate_on || !companion->enqueue_release_on || companion->order_passed ||
        !nxm_quiet_may(scope->allocator))
        return;
    scope->order = (NxmemCudaOrder){
        .struct_size = sizeof scope->order,
        .kind = NXMEM_CUDA_ORDER_SYNCHRONOUS,
        .context = (uint64_t)(uintptr_t)scope->context,
    };
    scope->block_is_range = companion->traits & NXMEM_CUDA_TRAIT_BASE_IS_DRIVER_ALLOCATION;
    scope->quiet = true;
}

static void open_scope(struct nxm_scope *scope)
{
    struct nxm_module *module = nxm_plugin();
    NxmemDeviceId device = { NXMEM_TIER_DEVICE, (uint32_t)scope->device };
    struct nxm_allocator_options options = {
        .blocks = nxm_table(NXM_TABLE_MEMORY), .owner = scope, .reclaim = reclaim, .stale = nxm_stale_make_way,
        .pins = { .pin = pin_scope, .unpin = unpin_scope, .context = scope },
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
    allow_quiet(scope);
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

void nxm_scope_greet_with(void (*greeter)(struct nxm_scope *scope))
{
    greet = greeter;
}

static uint64_t users(const struct nxm_scope *scope)
{
    return nxm_spread_sum(scope->counts, NXM_SCOPE_USERS) + nxm_door_announced(scope);
}

/* One of those who leave a closed scope, or the one who closed it, is the last to find it empty. */
void nxm_scope_leave_closed(struct nxm_scope *scope)
{
    if (!atomic_load(&scope->given_up) || users(scope) != 0 ||
        atomic_exchange(&scope->empty, true))
        return;
    struct nxm_allocator *allocator = scope->allocator; /* nobody else looks at it any more */
    if (allocator) {
        scope->allocator = NULL;
        keep_totals(allocator);
        nxm_foreign_begin();
        nxm_allocator_unref(allocator);
        nxm_foreign_end();
    }
    leave_counts(scope);
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
        nxm_turn_finish(&scope->opening); /* from here on others find it: nothing that is new is missed */
        if (scope->allocator && greet)
            greet(scope);
    }
    if (nxm_turn_is_done(&scope->opening))
        return scope;
    nxm_scope_leave(scope); /* another thread is still at it, and has been for long */
    return NULL;
}

struct nxm_scope *nxm_scope_enter_another(const struct nxm_order *order, bool *ret_refuse)
{
    struct nxm_scope *scope = nxm_plugin() && order->device >= 0 ? enter_opened(order) : NULL;
    if (scope && scope->allocator) {
        nxm_thread.scopes[order->cuda.kind != NXMEM_CUDA_ORDER_SYNCHRONOUS] = scope;
        return scope;
    }
    *ret_refuse = nxm_refuse_instead() && !(scope && scope->unserved);
    if (scope)
        nxm_scope_leave(scope);
    return NULL;
}

/* What the plugin has queued shall end before the context does. The last user is the caller, so the allocator is there. */
static void let_releases_end(struct nxm_scope *scope)
{
    long pause = 0;

    for (int pass = 0; pass < CLOSE_DRAINS && nxm_spread_sum(scope->counts, NXM_SCOPE_PINS) != 0; pass++) {
        nxm_nap(pause);
        pause += 1000000;
        nxm_foreign_begin();
        nxm_allocator_drain(scope->allocator, UINT64_MAX);
        nxm_foreign_end();
    }
}

/* true: it is the caller's to give up, who is inside. A program that destroys a context under its own running calls is on its own
 * natively too: the wait for them is bounded. */
static bool shut(struct nxm_scope *scope)
{
    if (!nxm_scope_enter(scope))
        return false;
    if (atomic_exchange(&scope->closed, true)) {
        nxm_scope_leave(scope);
        return false;
    }
    nxm_calm_renew(); /* what goes in quietly looks at that alone (quiet.h) */
    for (int i = 0; i < CLOSE_SPINS && users(scope) > 1; i++)
        sched_yield();
    return true;
}

static void give_up(struct nxm_scope *scope)
{
    let_releases_end(scope);
    atomic_store(&scope->given_up, true);
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

void nxm_scope_shut_context(struct nxm_ending *ending)
{
    for (struct nxm_scope *scope = next_open(NULL); scope; scope = next_open(scope)) {
        if (scope->context != ending->context || !shut(scope))
            continue;
        scope->next_shut = ending->shut;
        ending->shut = scope;
    }
}

static bool is_open_for_use(const struct nxm_scope *scope) /* entered */
{
    return nxm_turn_is_done(&scope->opening) && scope->allocator;
}

void nxm_scope_each_shut(struct nxm_ending *ending, void (*visit)(struct nxm_scope *scope, void *argument), void *argument)
{
    for (struct nxm_scope *scope = ending->shut; scope; scope = scope->next_shut) {
        if (is_open_for_use(scope))
            visit(scope, argument);
    }
}

void nxm_scope_give_up(struct nxm_ending *ending)
{
    for (struct nxm_scope *scope = ending->shut, *next; scope; scope = next) {
        next = scope->next_shut;
        unlink_scope(scope);
        give_up(scope);
    }
    ending->shut = NULL;
    nxm_context_forget(ending->context);
}

void nxm_scope_close_context(CUcontext context)
{
    struct nxm_ending ending;

    nxm_scope_ending_begin(&ending, context);
    nxm_scope_shut_context(&ending);
    nxm_scope_give_up(&ending);
    nxm_scope_ending_end(&ending);
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
    for (struct nxm_scope *scope = next_open(NULL); scope; scope = next_open(scope)) {
        if (shut(scope))
            give_up(scope);
    }
}

void nxm_scope_each(void (*visit)(struct nxm_scope *scope, void *argument), void *argument)
{
    for (struct nxm_scope *scope = next_open(NULL); scope; scope = next_open(scope)) {
        if (!nxm_scope_enter(scope))
            continue;
        if (is_open_for_use(scope))
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
