#include "context.h"

#include <stdatomic.h>
#include <stdbool.h>

#include "calm.h"
#include "core/lock.h"
#include "core/mem.h"
#include "real.h"

/* A context handle is remembered with its device until the context is destroyed. */
struct context {
    struct context *next;
    CUcontext handle; /* NULL: a record to use again */
    CUcontext owner; /* of a green one: its primary one */
    int device;
    bool primary;
};

/* Which context is a device's primary one must not be missed for want of memory: its end would be. */
static struct context at_hand[16];
static unsigned at_hand_used;

static struct nxm_lock lock = NXM_LOCK_INIT(NXM_RANK_SCOPE);
static struct context *contexts;
static _Atomic bool any_green; /* never false again */
_Atomic unsigned nxm_context_changes;

static struct context *find_context(CUcontext handle)
{
    struct context *c = contexts;

    while (c && c->handle != handle)
        c = c->next;
    return c;
}

static struct context *new_record(void)
{
    if (at_hand_used < sizeof at_hand / sizeof *at_hand)
        return &at_hand[at_hand_used++];
    return nxm_mem_new(sizeof(struct context));
}

static void remember_context(CUcontext handle, int device, bool primary)
{
    nxm_lock_acquire(&lock);
    struct context *c = find_context(handle);
    if (!c)
        c = find_context(NULL);
    if (!c && (c = new_record()) != NULL) {
        c->next = contexts;
        contexts = c;
    }
    if (c) {
        if (c->handle != handle)
            c->owner = NULL;
        c->primary = primary || (c->handle == handle && c->primary);
        c->handle = handle;
        c->device = device;
    }
    nxm_lock_release(&lock);
}

/* With the context current for a moment. */
static int ask_device(CUcontext context)
{
    CUcontext current = NULL;
    CUdevice device = -1;

    if (!nxm_real.cuCtxGetDevice)
        return -1;
    if (nxm_real.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == context)
        return nxm_real.cuCtxGetDevice(&device) == CUDA_SUCCESS ? device : -1;
    if (nxm_real.cuCtxPushCurrent_v2(context) != CUDA_SUCCESS)
        return -1;
    if (nxm_real.cuCtxGetDevice(&device) != CUDA_SUCCESS)
        device = -1;
    nxm_real.cuCtxPopCurrent_v2(&current);
    return device;
}

int nxm_context_device(CUcontext context)
{
    int device = -1;

    nxm_lock_acquire(&lock);
    struct context *c = find_context(context);
    if (c)
        device = c->device;
    nxm_lock_release(&lock);
    if (!c) {
        device = ask_device(context);
        if (device >= 0)
            remember_context(context, device, false);
    }
    return device;
}

void nxm_context_is_primary(int device, CUcontext context)
{
    remember_context(context, device, true);
}

CUcontext nxm_context_primary(int device)
{
    CUcontext found = NULL;

    nxm_lock_acquire(&lock);
    for (struct context *c = contexts; c; c = c->next) {
        if (c->handle && c->primary && c->device == device)
            found = c->handle;
    }
    nxm_lock_release(&lock);
    return found;
}

void nxm_context_is_green(CUcontext green, CUcontext primary)
{
    int device = nxm_context_device(green); /* remembered from here on */

    nxm_lock_acquire(&lock);
    struct context *c = device >= 0 ? find_context(green) : NULL;
    if (c) {
        c->owner = primary;
        atomic_store(&any_green, true);
        atomic_fetch_add(&nxm_context_changes, 1);
        nxm_calm_renew();
    }
    nxm_lock_release(&lock);
}

CUcontext nxm_context_owner(CUcontext context)
{
    if (!context || !atomic_load_explicit(&any_green, memory_order_acquire))
        return context;
    nxm_lock_acquire(&lock);
    struct context *c = find_context(context);
    CUcontext owner = c && c->owner ? c->owner : context;
    nxm_lock_release(&lock);
    return owner;
}

void nxm_context_forget(CUcontext context)
{
    nxm_lock_acquire(&lock);
    struct context *c = find_context(context);
    if (c) {
        c->handle = NULL;
        c->owner = NULL;
        c->primary = false;
    }
    atomic_fetch_add(&nxm_context_changes, 1);
    nxm_calm_renew();
    nxm_lock_release(&lock);
}

/* The count is read first: what changes meanwhile makes this out of date at once. */
void nxm_context_find_place(CUcontext context, struct nxm_place *ret_place)
{
    unsigned changes = atomic_load(&nxm_context_changes);
    CUcontext owner = nxm_context_owner(context);
    int device = nxm_context_device(owner);

    *ret_place = (struct nxm_place){ .context = device >= 0 ? context : NULL, .owner = owner, .device = device, .changes = changes, .calm = NXM_NEVER_CALM };
}
