/* A context is reset while another thread's allocation waits for room in it; the one that comes back frees as ever. */
#include "case.h"

#include <stdatomic.h>

static CUcontext context;
static atomic_int go;

static void wait_for_program(void *unused)
{
    (void)unused;
    while (!go)
        usleep(1000);
}

static void *ask_for_much(void *unused)
{
    CUdeviceptr p;

    cuCtxSetCurrent(context);
    cuMemAlloc(&p, 60 << 20);
    return unused;
}

int main(void)
{
    CUdeviceptr p, q;
    pthread_t thread;
    CUstream stream;

    context = begin_case();
    SHOW(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    SHOW(cuMemAlloc(&p, 1 << 20));
    SHOW(cuMemAlloc(&q, 20 << 20));
    SHOW(cuMemFree(p));
    SHOW(cuLaunchHostFunc(stream, wait_for_program, NULL));
    pthread_create(&thread, NULL, ask_for_much, NULL);
    usleep(20000);
    go = 1;
    SHOW(cuDevicePrimaryCtxReset(0));
    pthread_join(thread, NULL);
    context = begin_case();
    for (int i = 0; i < 3; i++) {
        SHOW(cuMemAlloc(&p, 1 << 20));
        SHOW(cuMemFree(p));
    }
    return 0;
}
