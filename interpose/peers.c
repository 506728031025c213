#include "peers.h"

#include "context.h"
#include "core/lock.h"
#include "core/log.h"
#include "core/mem.h"
#include "thread.h"

/* Contexts are NULL for a grant of a pool. */
struct grant {
    struct grant *next;
    CUcontext accessor, owner;
    int accessor_device, owner_device; /* accessor's -1: a record to use again */
    bool of_pool;
};

static struct nxm_lock lock = NXM_LOCK_INIT(NXM_RANK_SCOPE);
static struct grant *grants;

static bool is_same(const struct grant *a, const struct grant *b)
{
    return a->accessor == b->accessor && a->owner == b->owner && a->accessor_device == b->accessor_device &&
           a->owner_device == b->owner_device && a->of_pool == b->of_pool;
}

/* Whether memory of that kind is reachable at all: several contexts may have granted it. Called locked. */
static bool is_granted(const struct grant *like)
{
    for (const struct grant *g = grants; g; g = g->next) {
        if (g->accessor_device == like->accessor_device && g->owner_device == like->owner_device && g->of_pool == like->of_pool)
            return true;
    }
    return false;
}

/* false: it was reachable before, or there is no memory to remember it. */
static bool add(const struct grant *wanted)
{
    nxm_lock_acquire(&lock);
    bool first = !is_granted(wanted);
    struct grant *g = grants;
    while (g && !is_same(g, wanted))
        g = g->next;
    if (!g) {
        for (g = grants; g && g->accessor_device != -1; g = g->next)
            ;
        struct grant *next = g ? g->next : grants;
        bool fresh = !g && (g = nxm_mem_new(sizeof *g)) != NULL;
        if (g) {
            *g = *wanted;
            g->next = next;
        }
        if (fresh)
            grants = g;
    }
    nxm_lock_release(&lock);
    return first && g;
}

/* true: nothing else keeps it reachable. */
static bool withdraw(const struct grant *unwanted)
{
    bool found = false;

    nxm_lock_acquire(&lock);
    for (struct grant *g = grants; g; g = g->next) {
        if (is_same(g, unwanted)) {
            g->accessor_device = -1;
            found = true;
        }
    }
    bool last = found && !is_granted(unwanted);
    nxm_lock_release(&lock);
    return last;
}

/* --- telling mechanisms ----------------------------------------------------------------------------------------------- */

struct news {
    const struct grant *grant;
    bool enabled, refused;
};

static bool set_access(struct nxm_scope *scope, int peer, bool enabled)
{
    if (!scope->companion.vtable.set_peer_access)
        return true;
    nxm_foreign_begin();
    NxmemStatus status = scope->companion.vtable.set_peer_access(scope->companion.vtable.ctx, (uint32_t)peer, enabled);
    nxm_foreign_end();
    if (status.code == NXMEM_STATUS_OK)
        return true;
    nxm_log(NXM_LOG_WARNING, "the plugin %s access of device %d to its memory on device %d (status %u)",
            enabled ? "refuses" : "does not end", peer, scope->device, status.code);
    return false;
}

static void tell_scope(struct nxm_scope *scope, void *argument)
{
    struct news *news = argument;

    if (scope->device == news->grant->owner_device && !scope->context == news->grant->of_pool &&
        !set_access(scope, news->grant->accessor_device, news->enabled))
        news->refused = true;
}

static bool tell_all(const struct grant *grant, bool enabled)
{
    struct news news = { grant, enabled, false };

    nxm_scope_each(tell_scope, &news);
    return !news.refused;
}

void nxm_peers_tell(struct nxm_scope *scope)
{
    uint64_t reachable = 0; /* by device */

    if (!scope->companion.vtable.set_peer_access)
        return;
    nxm_lock_acquire(&lock);
    for (const struct grant *g = grants; g; g = g->next) {
        if (g->owner_device == scope->device && g->of_pool == !scope->context && g->accessor_device >= 0)
            reachable |= UINT64_C(1) << (g->accessor_device & 63);
    }
    nxm_lock_release(&lock);
    for (int peer = 0; peer < 64; peer++) {
        if (reachable >> peer & 1)
            set_access(scope, peer, true);
    }
}

/* --- the program's wishes ---------------------------------------------------------------------------------------------- */

static bool between(CUcontext accessor, CUcontext owner, struct grant *ret_grant)
{
    struct grant grant = { .accessor = nxm_context_owner(accessor), .owner = nxm_context_owner(owner),
                           .accessor_device = nxm_context_device(accessor), .owner_device = nxm_context_device(owner) };

    *ret_grant = grant;
    return grant.accessor_device >= 0 && grant.owner_device >= 0;
}

bool nxm_peers_enabled(CUcontext accessor, CUcontext owner, bool tell)
{
    struct grant grant;

    if (!between(accessor, owner, &grant) || !add(&grant) || !tell || tell_all(&grant, true))
        return true;
    withdraw(&grant);
    tell_all(&grant, false);
    return false;
}

void nxm_peers_disabled(CUcontext accessor, CUcontext owner, bool tell)
{
    struct grant grant;

    if (between(accessor, owner, &grant) && withdraw(&grant) && tell)
        tell_all(&grant, false);
}

/* One grant that a context takes along. */
static bool find_of(CUcontext context, struct grant *ret_grant)
{
    nxm_lock_acquire(&lock);
    struct grant *g = grants;
    while (g && (g->accessor_device == -1 || (g->accessor != context && g->owner != context)))
        g = g->next;
    if (g)
        *ret_grant = *g;
    nxm_lock_release(&lock);
    return g != NULL;
}

void nxm_peers_context_gone(CUcontext context, bool tell)
{
    struct grant grant;

    while (context && find_of(context, &grant)) {
        if (withdraw(&grant) && tell)
            tell_all(&grant, false);
    }
}

void nxm_peers_of_pool(int device, int accessor_device, bool enabled, bool tell)
{
    struct grant grant = { .accessor_device = accessor_device, .owner_device = device, .of_pool = true };

    if (accessor_device < 0 || accessor_device == device)
        return;
    if (enabled ? add(&grant) && tell : withdraw(&grant) && tell)
        tell_all(&grant, enabled);
}
