#include "context.h"

#include <stdbool.h>

#include "core/lock.h"
#include "core/mem.h"
#include "real.h"

/* A context handle is remembered with its device until the context is destroyed. */
struct context {
    struct context *next;
    CUcontext handle; /* NULL: a record to use again */
    int device;
    bool primary;
};

static struct nxm_lock lock = NXM_LOCK_INIT(NXM_RANK_SCOPE);
static struct context *contexts;

static struct context *find_context(CUcontext handle)
{
    struct context *c = contexts;

    while (c && c->handle != handle)
        c = c->next;
    return c;
}

static void remember_context(CUcontext handle, int device, bool primary)
{
    nxm_lock_acquire(&lock);
    struct context *c = find_context(handle);
    if (!c)
        c = find_context(NULL);
    if (!c && (c = nxm_mem_new(sizeof *c)) != NULL) {
        c->next = contexts;
        contexts = c;
    }
    if (c) {
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

void nxm_context_forget(CUcontext context)
{
    nxm_lock_acquire(&lock);
    struct context *c = find_context(context);
    if (c) {
        c->handle = NULL;
        c->primary = false;
    }
    nxm_lock_release(&lock);
}
