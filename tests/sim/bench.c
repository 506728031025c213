/* How fast the simulated driver allocates and frees: pairs a second, one thread. It judges nothing: figures depend on the
 * machine. test_speed.sh counts instructions, which do not.
 *
 *     bench                 every case, a table
 *     bench CASE PAIRS      one case, silently, for counting */
#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BYTES = 4096, LIVE = 1000, BATCH = 256 };

static CUstream stream;
static CUmemoryPool pool;

static void must(CUresult result)
{
    if (result == CUDA_SUCCESS) return;
    fprintf(stderr, "bench: a call answered %d\n", (int)result);
    exit(1);
}

static uint32_t draw(void)
{
    static uint32_t seed = 1;
    seed = seed * 1664525u + 1013904223u;
    return seed >> 8;
}

static void sync_pairs(uint64_t pairs)
{
    CUdeviceptr p;
    for (uint64_t i = 0; i < pairs; i++) {
        must(cuMemAlloc(&p, BYTES));
        must(cuMemFree(p));
    }
}

/* A pair in the middle of many live blocks of many sizes. */
static void sync_crowd(uint64_t pairs)
{
    static CUdeviceptr live[LIVE];
    for (int i = 0; i < LIVE; i++) must(cuMemAlloc(&live[i], 1 + draw() % 16384));
    for (uint64_t i = 0; i < pairs; i++) {
        CUdeviceptr *p = &live[draw() % LIVE];
        must(cuMemFree(*p));
        must(cuMemAlloc(p, 1 + draw() % 16384));
    }
    for (int i = 0; i < LIVE; i++) must(cuMemFree(live[i]));
}

static void async_pairs(uint64_t pairs)
{
    CUdeviceptr p;
    for (uint64_t i = 0; i < pairs; i++) {
        must(cuMemAllocAsync(&p, BYTES, stream));
        must(cuMemFreeAsync(p, stream));
    }
}

static void async_batches(uint64_t pairs)
{
    CUdeviceptr live[BATCH];
    for (uint64_t i = 0; i < pairs; i += BATCH) {
        for (int j = 0; j < BATCH; j++) must(cuMemAllocAsync(&live[j], BYTES, stream));
        for (int j = 0; j < BATCH; j++) must(cuMemFreeAsync(live[j], stream));
    }
}

static void pool_pairs(uint64_t pairs)
{
    CUdeviceptr p;
    for (uint64_t i = 0; i < pairs; i++) {
        must(cuMemAllocFromPoolAsync(&p, BYTES, pool, stream));
        must(cuMemFreeAsync(p, stream));
    }
}

static const struct bench_case {
    const char *name;
    void (*run)(uint64_t pairs);
} cases[] = {
    { "sync", sync_pairs },           { "sync-crowd", sync_crowd }, { "async", async_pairs },
    { "async-batches", async_batches }, { "pool", pool_pairs },
};
enum { CASES = sizeof cases / sizeof cases[0] };

static void prepare(void)
{
    CUmemPoolProps props;
    CUcontext context;
    must(cuInit(0));
    must(cuDevicePrimaryCtxRetain(&context, 0));
    must(cuCtxSetCurrent(context));
    must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    memset(&props, 0, sizeof props);
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    must(cuMemPoolCreate(&pool, &props));
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Twice as many until it takes long enough to mean something. */
static void measure(const struct bench_case *c)
{
    uint64_t pairs = 1000;
    double took = 0;
    for (; took < 0.2; pairs *= 2) {
        double begin = seconds();
        c->run(pairs);
        took = seconds() - begin;
        if (took >= 0.2) break;
    }
    printf("%-14s %8.0f ns a pair %10.0f pairs a second\n", c->name, took / (double)pairs * 1e9, (double)pairs / took);
}

int main(int argc, char **argv)
{
    prepare();
    for (int i = 0; i < CASES; i++) {
        if (argc < 2) measure(&cases[i]);
        else if (strcmp(argv[1], cases[i].name) == 0) cases[i].run(argc > 2 ? strtoull(argv[2], NULL, 0) : 1000);
    }
    return 0;
}
