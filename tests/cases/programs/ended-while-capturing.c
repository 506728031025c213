/* A context ends, destroyed or reset, while a stream of it captures and another one works: its memory goes after the work. */
#include "case.h"

#include <stdbool.h>

static void slow(void *unused)
{
    (void)unused;
    usleep(100000);
}

static CUcontext context;
static CUstream captured;

/* A capture that nobody but this thread may end. */
static void *capture(void *unused)
{
    SHOW(cuCtxSetCurrent(context));
    SHOW(cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    return unused;
}

int main(int argc, char **argv)
{
    bool reset = argc > 1 && strcmp(argv[1], "reset") == 0;
    bool elsewhere = argc > 2;
    CUstream busy;
    CUdeviceptr p, q;

    context = begin_case();
    if (!reset)
        SHOW(cuCtxCreate(&context, NULL, 0, 0));
    SHOW(cuStreamCreate(&busy, CU_STREAM_NON_BLOCKING));
    SHOW(cuStreamCreate(&captured, CU_STREAM_NON_BLOCKING));
    SHOW(cuMemAlloc(&p, 1 << 20));
    SHOW(cuMemAlloc(&q, 4096));
    SHOW(cuLaunchHostFunc(busy, slow, NULL));
    SHOW(cuMemsetD8Async(p, 1, 1 << 20, busy));
    if (elsewhere)
        on_another_thread(capture, NULL);
    else
        SHOW(cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_RELAXED));
    SHOW(cuMemsetD8Async(q, 1, 4096, captured));
    SHOW(reset ? cuDevicePrimaryCtxReset(0) : cuCtxDestroy(context));
    usleep(200000);
    FACT(sim_violations());
    FACT(sim_misuses());
    return 0;
}
