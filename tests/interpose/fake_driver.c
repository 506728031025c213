#include "fake_driver.h"

#include <string.h>

struct fake_driver fake;
struct nxm_real nxm_real;

unsigned nxm_real_state = NXM_REAL_READY;

bool nxm_real_find(void)
{
    return true;
}

static CUcontext stack[8];
static int depth;

static CUresult get_current(CUcontext *context)
{
    *context = fake.current;
    return CUDA_SUCCESS;
}

static CUresult get_device(CUdevice *device)
{
    *device = 0;
    return fake.current ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

static CUresult push(CUcontext context)
{
    stack[depth++] = fake.current;
    fake.current = context;
    return CUDA_SUCCESS;
}

static CUresult pop(CUcontext *context)
{
    *context = fake.current;
    fake.current = stack[--depth];
    return CUDA_SUCCESS;
}

static CUresult event_create(CUevent *event, unsigned flags)
{
    (void)flags;
    static uintptr_t last;
    *event = (CUevent)(last += 16);
    fake.events_made++;
    return CUDA_SUCCESS;
}

static CUresult event_destroy(CUevent event)
{
    (void)event;
    fake.events_destroyed++;
    return CUDA_SUCCESS;
}

static CUresult event_record(CUevent event, CUstream stream)
{
    (void)stream;
    if (!fake.first_recorded)
        fake.first_recorded = event;
    fake.last_recorded = event;
    fake.records++;
    return fake.record_result;
}

static CUevent of_context; /* the latest */

static CUresult context_record(CUcontext context, CUevent event)
{
    (void)context;
    if ((uintptr_t)event <= (uintptr_t)fake.dead_up_to)
        return CUDA_ERROR_INVALID_HANDLE;
    of_context = event;
    fake.context_records++;
    void (*meanwhile)(void) = fake.while_recording;
    fake.while_recording = NULL;
    if (meanwhile)
        meanwhile();
    return fake.record_result;
}

static CUresult event_query(CUevent event)
{
    fake.queries++;
    if (event && event == fake.only_passed)
        return CUDA_SUCCESS;
    return fake.passed && !(fake.context_busy && event == of_context) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static CUresult event_wait(CUevent event)
{
    (void)event;
    fake.waits++;
    return CUDA_SUCCESS;
}

static CUresult context_wait(void)
{
    fake.context_waits++;
    return CUDA_SUCCESS;
}

static CUresult stream_id(CUstream stream, unsigned long long *id)
{
    *id = (unsigned long long)(uintptr_t)stream + 1;
    return CUDA_SUCCESS;
}

static CUresult stream_context(CUstream stream, CUcontext *context)
{
    (void)stream;
    *context = FAKE_CONTEXT;
    return CUDA_SUCCESS;
}

static CUresult is_capturing(CUstream stream, CUstreamCaptureStatus *status)
{
    (void)stream;
    *status = fake.capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}

static CUresult alloc(CUdeviceptr *address, size_t bytes)
{
    (void)bytes;
    fake.allocs++;
    if (!fake.current)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (fake.alloc_result == CUDA_SUCCESS)
        *address = 0xD000;
    return fake.alloc_result;
}

static CUresult release(CUdeviceptr address)
{
    (void)address;
    fake.frees++;
    return CUDA_SUCCESS;
}

void fake_driver_reset(void)
{
    memset(&fake, 0, sizeof fake);
    fake.current = FAKE_CONTEXT;
    fake.passed = true;
    depth = 0;
    memset(&nxm_real, 0, sizeof nxm_real);
    nxm_real.cuCtxGetCurrent = get_current;
    nxm_real.cuCtxGetDevice = get_device;
    nxm_real.cuCtxPushCurrent_v2 = push;
    nxm_real.cuCtxPopCurrent_v2 = pop;
    nxm_real.cuCtxSynchronize = context_wait;
    nxm_real.cuCtxRecordEvent = context_record;
    nxm_real.cuEventCreate = event_create;
    nxm_real.cuEventDestroy_v2 = event_destroy;
    nxm_real.cuEventRecord = event_record;
    nxm_real.cuEventQuery = event_query;
    nxm_real.cuEventSynchronize = event_wait;
    nxm_real.cuStreamGetId = stream_id;
    nxm_real.cuStreamGetCtx = stream_context;
    nxm_real.cuStreamIsCapturing = is_capturing;
    nxm_real.cuMemAlloc_v2 = alloc;
    nxm_real.cuMemFree_v2 = release;
}
