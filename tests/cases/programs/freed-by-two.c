/* Two threads free the same block at the same moment, each by one of the calls: one of them succeeds. */
#include "case.h"

#include <stdatomic.h>
#include <stdbool.h>

enum { TIMES = 200, KINDS = 8 };

static CUcontext context;
static CUstream stream;
static CUdeviceptr p;
static pthread_barrier_t moment;
static atomic_int freed, refused, others;

static CUresult allocate(int kind)
{
    return kind & 4 ? cuMemAllocAsync(&p, 1000, stream) : cuMemAlloc(&p, 1000);
}

static void free_it(bool ordered)
{
    CUresult result = ordered ? cuMemFreeAsync(p, stream) : cuMemFree(p);

    atomic_fetch_add(result == CUDA_SUCCESS ? &freed : result == CUDA_ERROR_INVALID_VALUE ? &refused : &others, 1);
}

static void *second(void *unused)
{
    cuCtxSetCurrent(context);
    for (int i = 0; i < KINDS * TIMES; i++) {
        pthread_barrier_wait(&moment);
        free_it((i / TIMES) & 1);
        pthread_barrier_wait(&moment);
    }
    return unused;
}

int main(void)
{
    pthread_t thread;

    context = begin_case();
    SHOW(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    pthread_barrier_init(&moment, NULL, 2);
    if (pthread_create(&thread, NULL, second, NULL) != 0)
        return 98;
    for (int i = 0; i < KINDS * TIMES; i++) {
        if (allocate(i / TIMES) != CUDA_SUCCESS || cuStreamSynchronize(stream) != CUDA_SUCCESS)
            return 97;
        pthread_barrier_wait(&moment);
        free_it((i / TIMES) & 2);
        pthread_barrier_wait(&moment);
    }
    pthread_join(thread, NULL);
    SHOW(cuStreamSynchronize(stream));
    FACT(freed);
    FACT(refused);
    FACT(others);
    return 0;
}
