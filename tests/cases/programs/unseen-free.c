/* A driver of the future: memory is freed as ever while work runs on it, and once more by a form of cuMemFree that nobody knows yet. */
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#include "case.h"

typedef CUresult (*future_free)(CUdeviceptr, cuuint64_t);

static void takes_a_while(void *unused)
{
    (void)unused;
    usleep(200000);
}

static CUdeviceptr freed_under_work(CUstream stream)
{
    CUdeviceptr p = 0;

    SHOW(cuMemAlloc_v2(&p, 1000));
    SHOW(cuMemsetD8Async(p, 1, 1000, stream));
    SHOW(cuLaunchHostFunc(stream, takes_a_while, NULL));
    SHOW(cuMemFree_v2(p));
    return p;
}

int main(void)
{
    CUdriverProcAddressQueryResult status;
    CUcontext context = NULL;
    CUstream stream = NULL;
    future_free release = NULL;

    alarm(200);
    SHOW(cuInit(0));
    SHOW(cuDevicePrimaryCtxRetain(&context, 0));
    SHOW(cuCtxSetCurrent(context));
    SHOW(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    SHOW(cuGetProcAddress_v2("cuMemFree", (void **)&release, 99000, 0, &status));
    if (!release)
        return 95;
    CUdeviceptr p = freed_under_work(stream);
    SHOW(release(p, 0));
    SHOW(cuStreamSynchronize(stream));
    return 0;
}
