/* The program that is measured: `pair PAIRS [LIVE [THREADS [async|idle]]]` allocates and frees 64 KiB PAIRS times in each of THREADS
 * threads over LIVE other blocks, and prints what one pair took, in nanoseconds of a core; with `idle` it asks and waits for a stream
 * instead, over one block at least. Knows nothing of the shim. */
#include <cuda.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BYTES (64 << 10)

static unsigned long pairs, live;
static int async, idle;
static CUcontext context;
static pthread_barrier_t together;

static void must(CUresult result, const char *what)
{
    if (result == CUDA_SUCCESS)
        return;
    fprintf(stderr, "pair: %s: CUDA error %d\n", what, (int)result);
    exit(1);
}

static double core_seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void pair(void)
{
    CUdeviceptr block;

    if (idle) {
        must(cuStreamQuery(NULL), "question");
        must(cuStreamSynchronize(NULL), "wait");
        return;
    }
    must(async ? cuMemAllocAsync(&block, BYTES, NULL) : cuMemAlloc(&block, BYTES), "allocation");
    must(async ? cuMemFreeAsync(block, NULL) : cuMemFree(block), "free");
}

static void *work(void *argument)
{
    double *took = argument, begun;

    must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    for (int i = 0; i < 16; i++)
        pair(); /* what is done once is not counted */
    pthread_barrier_wait(&together);
    begun = core_seconds();
    for (unsigned long i = 0; i < pairs; i++)
        pair();
    *took = core_seconds() - begun;
    return NULL;
}

static unsigned long number(int argc, char **argv, int at, unsigned long otherwise)
{
    return argc > at ? strtoul(argv[at], NULL, 10) : otherwise;
}

int main(int argc, char **argv)
{
    unsigned threads;
    double took[64], sum = 0;
    pthread_t ids[64];

    pairs = number(argc, argv, 1, 1000000);
    live = number(argc, argv, 2, 0);
    threads = (unsigned)number(argc, argv, 3, 1);
    async = argc > 4 && strcmp(argv[4], "async") == 0;
    idle = argc > 4 && strcmp(argv[4], "idle") == 0;
    live += idle && live == 0;
    if (pairs == 0 || threads == 0 || threads > 64) {
        fprintf(stderr, "usage: pair PAIRS [LIVE [THREADS (1 to 64) [async|idle]]]\n");
        return 2;
    }
    must(cuInit(0), "cuInit");
    must(cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
    must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    for (unsigned long i = 0; i < live; i++) {
        CUdeviceptr block;
        must(cuMemAlloc(&block, BYTES), "allocation");
    }
    pthread_barrier_init(&together, NULL, threads);
    for (unsigned i = 1; i < threads; i++) {
        if (pthread_create(&ids[i], NULL, work, &took[i]) != 0)
            return 1;
    }
    work(&took[0]);
    for (unsigned i = 1; i < threads; i++)
        pthread_join(ids[i], NULL);
    for (unsigned i = 0; i < threads; i++)
        sum += took[i];
    printf("%.2f\n", sum * 1e9 / ((double)pairs * threads));
    return 0;
}
