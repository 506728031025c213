/* B04: eight threads make the very first calls at once. */
#include "case.h"

#include <stdatomic.h>

enum { THREADS = 8 };

static pthread_barrier_t start;
static atomic_int failures;

static void *work(void *unused)
{
    CUcontext context = NULL;
    CUdeviceptr p = 0;

    pthread_barrier_wait(&start);
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) || cuMemAlloc(&p, 1000) || cuMemFree(p))
        failures++;
    return unused;
}

int main(void)
{
    pthread_t thread[THREADS];

    alarm(200);
    pthread_barrier_init(&start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, work, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    FACT(failures);
    return 0;
}
