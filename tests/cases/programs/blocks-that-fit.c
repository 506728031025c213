/* Threads allocate, use, wait for and free a block each, and all of these blocks together are what the device has. What one has freed
 * is room at once for any other, so none is ever refused. */
#include "case.h"

#include <stdatomic.h>
#include <stdbool.h>

enum { MIB = 1 << 20, THREADS = 8, ROUNDS = 60 };

static CUcontext context;
static bool synchronous;
static atomic_int refused, failed;

static void *go_on(void *unused)
{
    CUstream stream;

    failed += cuCtxSetCurrent(context) != CUDA_SUCCESS || cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS;
    for (int i = 0; i < ROUNDS; i++) {
        CUdeviceptr block = 0;
        CUresult result = synchronous ? cuMemAlloc(&block, 2 * MIB) : cuMemAllocAsync(&block, 2 * MIB, stream);

        refused += result != CUDA_SUCCESS;
        if (result != CUDA_SUCCESS)
            continue;
        failed += cuMemsetD8Async(block, 1, 4096, stream) != CUDA_SUCCESS;
        failed += cuStreamSynchronize(stream) != CUDA_SUCCESS;
        failed += cuMemFree(block) != CUDA_SUCCESS;
    }
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];

    context = begin_case();
    synchronous = argc > 1 && strcmp(argv[1], "synchronous") == 0;
    for (int i = 0; i < THREADS; i++) {
        if (pthread_create(&threads[i], NULL, go_on, NULL) != 0)
            return 98;
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    FACT(refused);
    FACT(failed);
    return 0;
}
