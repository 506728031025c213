/* Green contexts: a share of a device's multiprocessors with streams of its own. What is allocated, loaded or pinned while
 * one is current belongs to the device's primary context, which it keeps alive. The multiprocessors are only counted. */
#include "capture.h"
#include "context.h"
#include "device.h"
#include "event.h"
#include "state.h"
#include "stream.h"

#include <string.h>

enum { WHOLE_DEVICE = SIM_MULTIPROCESSORS, COSCHEDULED = 8, SMALLEST = 2, DESCRIPTOR = 0x5d };

/* --- resources: the device's number travels in the padding ------------------------------------------------------ */

static CUdevResource share(int device, unsigned multiprocessors)
{
    CUdevResource r = { .type = CU_DEV_RESOURCE_TYPE_SM };
    r._internal_padding[0] = (unsigned char)device;
    r.sm.smCount = multiprocessors;
    r.sm.minSmPartitionSize = r.sm.smCoscheduledAlignment = COSCHEDULED;
    return r;
}

static CUresult get_share(CUdevResource *ret, CUdevResourceType type, int device, unsigned multiprocessors)
{
    if (!ret) return CUDA_ERROR_INVALID_VALUE;
    if (type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    *ret = share(device, multiprocessors);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource *resource, CUdevResourceType type)
{
    SIM_ENTER(cuDeviceGetDevResource);
    if (!sim_device_get(device)) return CUDA_ERROR_INVALID_DEVICE;
    return get_share(resource, type, device, WHOLE_DEVICE);
}

CUresult cuDevSmResourceSplitByCount(CUdevResource *result, unsigned *groups, const CUdevResource *input,
                                     CUdevResource *remaining, unsigned flags, unsigned least)
{
    SIM_ENTER(cuDevSmResourceSplitByCount);
    const unsigned known = CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING |
                           CU_DEV_SM_RESOURCE_SPLIT_MAX_POTENTIAL_CLUSTER_SIZE;
    if (!groups || !input || (flags & ~known)) return CUDA_ERROR_INVALID_VALUE;
    if (input->type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    if (least > input->sm.smCount) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    unsigned unit = flags & CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING ? SMALLEST : COSCHEDULED;
    unsigned size = least ? (least + unit - 1) / unit * unit : unit;
    unsigned most = input->sm.smCount / size, made = result && *groups < most ? *groups : most;
    int device = input->_internal_padding[0];
    unsigned whole = input->sm.smCount; /* `input` may be `remaining` */
    for (unsigned i = 0; result && i < made; i++) result[i] = share(device, size);
    if (remaining) *remaining = share(device, whole - made * size);
    *groups = made;
    return CUDA_SUCCESS;
}

/* A descriptor is never given back, so it is a number and no object. */
CUresult cuDevResourceGenerateDesc(CUdevResourceDesc *desc, CUdevResource *resources, unsigned count)
{
    SIM_ENTER(cuDevResourceGenerateDesc);
    if (!desc || !resources || !count) return CUDA_ERROR_INVALID_VALUE;
    unsigned multiprocessors = 0;
    for (unsigned i = 0; i < count; i++) {
        if (resources[i].type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
        if (resources[i]._internal_padding[0] != resources[0]._internal_padding[0])
            return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
        multiprocessors += resources[i].sm.smCount;
    }
    if (!multiprocessors || multiprocessors > WHOLE_DEVICE) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    *desc = (CUdevResourceDesc)((uintptr_t)DESCRIPTOR << 24 | (uintptr_t)resources[0]._internal_padding[0] << 16 | multiprocessors);
    return CUDA_SUCCESS;
}

/* --- life ----------------------------------------------------------------------------------------------------------- */

static struct sim_context *get(CUgreenCtx handle)
{
    struct sim_context *c = sim_object_find(handle, SIM_CONTEXT);
    return c && c->green_of ? c : NULL;
}

CUresult cuGreenCtxCreate(CUgreenCtx *green, CUdevResourceDesc desc, CUdevice dev, unsigned flags)
{
    SIM_ENTER(cuGreenCtxCreate);
    struct sim_device *d = sim_device_get(dev);
    uintptr_t number = (uintptr_t)desc;
    if (!d) return CUDA_ERROR_INVALID_DEVICE;
    if (!green || flags != CU_GREEN_CTX_DEFAULT_STREAM || number >> 24 != DESCRIPTOR || (int)(number >> 16 & 0xff) != dev)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult result = sim_primary_retain(d);
    if (result == CUDA_SUCCESS) {
        struct sim_context *c = sim_context_new(d, d->primary);
        if (c) {
            c->multiprocessors = (unsigned)(number & 0xffff);
            *green = (CUgreenCtx)c;
        } else {
            sim_primary_release(d, SIM_FN_cuGreenCtxCreate);
            result = CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    sim_unlock();
    return result;
}

CUresult cuGreenCtxDestroy(CUgreenCtx green)
{
    SIM_ENTER(cuGreenCtxDestroy);
    sim_lock();
    struct sim_context *c = get(green);
    CUresult result = !c ? CUDA_ERROR_INVALID_CONTEXT : c->active ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (result == CUDA_SUCCESS) {
        struct sim_device *d = c->device;
        sim_context_empty(c, SIM_FN_cuGreenCtxDestroy);
        sim_primary_release(d, SIM_FN_cuGreenCtxDestroy);
    }
    if (c) sim_object_close(&c->object); /* its primary context may have been reset before */
    sim_unlock();
    return result;
}

CUresult cuCtxFromGreenCtx(CUcontext *context, CUgreenCtx green)
{
    SIM_ENTER(cuCtxFromGreenCtx);
    if (!context) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_context *c = get(green);
    if (c) *context = (CUcontext)c; /* one object under both names */
    sim_unlock();
    return c ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

/* --- questions -------------------------------------------------------------------------------------------------------- */

CUresult cuGreenCtxGetDevResource(CUgreenCtx green, CUdevResource *resource, CUdevResourceType type)
{
    SIM_ENTER(cuGreenCtxGetDevResource);
    sim_lock();
    struct sim_context *c = get(green);
    CUresult result = c ? get_share(resource, type, c->device->ordinal, c->multiprocessors) : CUDA_ERROR_INVALID_CONTEXT;
    sim_unlock();
    return result;
}

CUresult cuCtxGetDevResource(CUcontext context, CUdevResource *resource, CUdevResourceType type)
{
    SIM_ENTER(cuCtxGetDevResource);
    struct sim_context *c;
    sim_lock();
    CUresult result = sim_context_get(context, &c);
    if (result == CUDA_SUCCESS)
        result = get_share(resource, type, c->device->ordinal, c->green_of ? c->multiprocessors : WHOLE_DEVICE);
    sim_unlock();
    return result;
}

CUresult cuGreenCtxGetId(CUgreenCtx green, unsigned long long *id)
{
    SIM_ENTER(cuGreenCtxGetId);
    if (!id) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_context *c = get(green);
    if (c) *id = c->object.id;
    sim_unlock();
    return c ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuStreamGetGreenCtx(CUstream h, CUgreenCtx *green)
{
    SIM_ENTER(cuStreamGetGreenCtx);
    struct sim_stream *s;
    if (!green) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult result = sim_stream_get(h, SIM_LEGACY, &s);
    if (result == CUDA_SUCCESS) *green = s->context && s->context->green_of ? (CUgreenCtx)s->context : NULL;
    sim_unlock();
    return result;
}

/* --- streams and events ------------------------------------------------------------------------------------------------- */

CUresult cuGreenCtxStreamCreate(CUstream *stream, CUgreenCtx green, unsigned flags, int priority)
{
    SIM_ENTER(cuGreenCtxStreamCreate);
    if (!stream || flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_context *c = get(green);
    struct sim_stream *s = c && c->active ? sim_stream_new(c, SIM_STREAM_CREATED, flags, priority) : NULL;
    if (s) *stream = (CUstream)s;
    sim_unlock();
    return s ? CUDA_SUCCESS : c && c->active ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuGreenCtxRecordEvent(CUgreenCtx green, CUevent event)
{
    SIM_ENTER(cuGreenCtxRecordEvent);
    sim_lock();
    struct sim_context *c = get(green);
    CUresult result = c && c->active ? sim_event_record_context(c, event) : CUDA_ERROR_INVALID_CONTEXT;
    sim_unlock();
    return result;
}

CUresult cuGreenCtxWaitEvent(CUgreenCtx green, CUevent event)
{
    SIM_ENTER(cuGreenCtxWaitEvent);
    sim_lock();
    struct sim_context *c = get(green);
    CUresult result = c && c->active ? sim_event_wait_context(c, event, SIM_FN_cuGreenCtxWaitEvent) : CUDA_ERROR_INVALID_CONTEXT;
    sim_unlock();
    return result;
}
