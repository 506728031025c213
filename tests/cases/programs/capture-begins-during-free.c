/* B22, B32: a free waits for work; meanwhile another thread's capture begins at once, and what the free waits for comes
 * only after it. */
#include "case.h"

#include <stdatomic.h>

static CUcontext context;
static CUstream busy;
static atomic_int freeing;

static void *capture(void *unused)
{
    CUstream stream;
    CUgraph graph = NULL;

    cuCtxSetCurrent(context);
    cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    while (!freeing)
        usleep(1000);
    usleep(100000); /* most likely inside; if not, the case is only weaker */
    CUresult begun = cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    CUresult ended = cuStreamEndCapture(stream, &graph);
    sim_release(busy);
    FACT(begun);
    FACT(ended);
    return unused;
}

int main(void)
{
    CUdeviceptr p = 0;
    pthread_t thread;

    context = begin_case();
    SHOW(cuStreamCreate(&busy, CU_STREAM_NON_BLOCKING));
    SHOW(cuMemAlloc(&p, 4096));
    pthread_create(&thread, NULL, capture, NULL);
    sim_hold(busy);
    SHOW(cuMemsetD8Async(p, 1, 4096, busy));
    freeing = 1;
    CUresult freed = cuMemFree(p);
    pthread_join(thread, NULL);
    FACT(freed);
    SHOW(cuStreamSynchronize(busy));
    FACT(sim_violations());
    return 0;
}
