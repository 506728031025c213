/* Contexts made and destroyed: memory goes with its context, the primary context comes back, threads have stacks. */
#include "check.h"

#include <cuda.h>
#include <pthread.h>

enum { ROUNDS = 6, BLOCKS = 5, BYTES = 1 << 20 };

static size_t free_now(void)
{
    size_t free_bytes, total;

    CHECK_DRIVER(cuMemGetInfo(&free_bytes, &total));
    return free_bytes;
}

static void *use(void *context)
{
    CUcontext popped = NULL;
    CUdeviceptr p;

    CHECK_DRIVER(cuCtxPushCurrent(context));
    CHECK_DRIVER(cuMemAlloc(&p, BYTES));
    CHECK_DRIVER(cuMemsetD32(p, 7, BYTES / 4));
    CHECK_DRIVER(cuMemFree(p));
    CHECK_DRIVER(cuCtxPopCurrent(&popped));
    return popped == context ? NULL : "another context";
}

int main(void)
{
    CUcontext primary, made, popped;
    CUdeviceptr kept, blocks[BLOCKS];
    size_t before;
    int value;

    CHECK_DRIVER(cuInit(0));
    CHECK_DRIVER(cuDevicePrimaryCtxRetain(&primary, 0));
    CHECK_DRIVER(cuCtxPushCurrent(primary));
    CHECK_DRIVER(cuMemAlloc(&kept, BYTES));
    CHECK_DRIVER(cuMemsetD32(kept, 42, BYTES / 4));
    before = free_now();
    for (int round = 0; round < ROUNDS; round++) {
        void *complaint = NULL;
        pthread_t thread;

#if CUDA_VERSION >= 13000
        CHECK_DRIVER(cuCtxCreate(&made, NULL, 0, 0));
#else
        CHECK_DRIVER(cuCtxCreate(&made, 0, 0));
#endif
        for (int i = 0; i < BLOCKS; i++)
            CHECK_DRIVER(cuMemAlloc(&blocks[i], BYTES));
        CHECK_DRIVER(cuMemFree(blocks[round % BLOCKS])); /* the others go with the context */
        EXPECT(pthread_create(&thread, NULL, use, made) == 0);
        EXPECT(pthread_join(thread, &complaint) == 0 && complaint == NULL);
        CHECK_DRIVER(cuCtxPopCurrent(&popped));
        EXPECT(popped == made);
        CHECK_DRIVER(cuCtxDestroy(made));
        CHECK_DRIVER(cuCtxGetCurrent(&popped));
        EXPECT(popped == primary);
    }
    printf("contexts: %zu bytes not given back after %d contexts\n", before - free_now(), ROUNDS);
    CHECK_DRIVER(cuMemcpyDtoH(&value, kept + BYTES - 4, 4));
    EXPECT(value == 42);
    printf("contexts: a destroyed one: %d\n", (int)cuCtxSetCurrent(made));
    CHECK_DRIVER(cuCtxSetCurrent(primary));
    CHECK_DRIVER(cuMemFree(kept));
    CHECK_DRIVER(cuDevicePrimaryCtxRelease(0));
    CHECK_DRIVER(cuDevicePrimaryCtxRetain(&primary, 0));
    CHECK_DRIVER(cuCtxSetCurrent(primary));
    CHECK_DRIVER(cuMemAlloc(&kept, BYTES));
    CHECK_DRIVER(cuDevicePrimaryCtxReset(0)); /* takes the block with it */
    (void)cuDevicePrimaryCtxRelease(0);       /* safe, documented so; with which code is not */
    puts("contexts: the primary context came back");
    return 0;
}
