/* B27: memory is freed by a thread without a context, and by one that has another device current. Two devices. */
#include "case.h"

static CUstream stream;

static void *without_context(void *argument)
{
    CUdeviceptr *p = argument;
    CUcontext current = NULL;

    SHOW(cuMemFree(p[0]));
    SHOW(cuMemFree(p[1]));
    SHOW(cuMemFreeAsync(p[2], stream));
    SHOW(cuMemFreeAsync(p[3], stream));
    SHOW(cuCtxGetCurrent(&current));
    FACT(current == NULL);
    return NULL;
}

static void *with_another_device(void *argument)
{
    CUdeviceptr *p = argument;
    CUcontext second = NULL, current = NULL;
    CUdevice device;

    SHOW(cuDeviceGet(&device, 1));
    SHOW(cuDevicePrimaryCtxRetain(&second, device));
    SHOW(cuCtxSetCurrent(second));
    SHOW(cuMemFree(p[0]));
    SHOW(cuMemFree(p[1]));
    SHOW(cuMemFreeAsync(p[2], stream));
    SHOW(cuMemFreeAsync(p[3], stream));
    SHOW(cuCtxGetCurrent(&current));
    FACT(current == second);
    return NULL;
}

static void blocks(CUdeviceptr *p) /* synchronous and ordered, in turn */
{
    SHOW(cuMemAlloc(&p[0], 1000));
    SHOW(cuMemAllocAsync(&p[1], 1000, stream));
    SHOW(cuMemAlloc(&p[2], 1000));
    SHOW(cuMemAllocAsync(&p[3], 1000, stream));
    SHOW(cuStreamSynchronize(stream));
}

int main(void)
{
    CUdeviceptr p[4] = { 0 };

    begin_case();
    SHOW(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    blocks(p);
    on_another_thread(without_context, p);
    SHOW(cuStreamSynchronize(stream));
    blocks(p);
    on_another_thread(with_another_device, p);
    SHOW(cuStreamSynchronize(stream));
    SHOW(cuCtxSynchronize());
    FACT(sim_violations());
    return 0;
}
