/* Frees behind work that the simulator holds back: the memory stays what it was until that work has run. Knows the simulated
 * driver's controls; the transcript is the same natively and under the shim. */
#include "transcript.h"

#include <pthread.h>
#include <unistd.h>

#include "tests/sim/simcuda.h"

CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device);

enum { BLOCKS = 8, BYTES = 4096 };

/* Never freed memory is poisoned or handed out again while its work waits: the work's own bytes come back. */
static void free_behind_held_work(CUstream stream, CUstream other)
{
    CUdeviceptr block[BLOCKS], fresh[BLOCKS], kept = 0;
    unsigned char seen[BLOCKS][16];
    int reused = 0, wrong = 0;

    cuMemAlloc(&kept, BLOCKS * 16);
    for (int i = 0; i < BLOCKS; i++)
        cuMemAllocAsync(&block[i], BYTES, stream);
    cuStreamSynchronize(stream);
    sim_hold(stream);
    for (int i = 0; i < BLOCKS; i++) {
        cuMemsetD8Async(block[i], (unsigned char)(i + 1), BYTES, stream);
        cuMemcpyDtoDAsync(kept + (CUdeviceptr)i * 16, block[i], 16, stream);
        if (SHOW(cuMemFreeAsync(block[i], stream)))
            return;
    }
    for (int i = 0; i < BLOCKS; i++) { /* meanwhile, on another stream */
        cuMemAllocAsync(&fresh[i], BYTES, other);
        cuMemsetD8Async(fresh[i], 0xEE, BYTES, other);
        for (int k = 0; k < BLOCKS; k++)
            reused += fresh[i] == block[k];
    }
    cuStreamSynchronize(other);
    FACT(reused);
    sim_release(stream);
    SHOW(cuStreamSynchronize(stream));
    cuMemcpyDtoH(seen, kept, sizeof seen);
    for (int i = 0; i < BLOCKS; i++)
        for (int k = 0; k < 16; k++)
            wrong += seen[i][k] != i + 1;
    FACT(wrong);
    for (int i = 0; i < BLOCKS; i++)
        cuMemFreeAsync(fresh[i], other);
    cuStreamSynchronize(other);
    SHOW(cuMemFree(kept));
}

/* A stream destroyed with work and frees pending; its handle may come back for another stream. */
static void destroy_with_work_pending(CUstream other)
{
    CUstream stream, next;
    CUdeviceptr block = 0, later = 0;

    SHOW(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    SHOW(cuMemAllocAsync(&block, BYTES, stream));
    SHOW(cuStreamSynchronize(stream));
    sim_hold(stream);
    SHOW(cuMemsetD8Async(block, 3, BYTES, stream));
    SHOW(cuMemFreeAsync(block, stream));
    sim_release(stream);
    SHOW(cuStreamDestroy(stream));
    SHOW(cuStreamCreate(&next, CU_STREAM_NON_BLOCKING));
    SHOW(cuMemAllocAsync(&later, BYTES, next));
    SHOW(cuMemsetD8Async(later, 1, BYTES, next));
    SHOW(cuMemFreeAsync(later, next));
    SHOW(cuStreamSynchronize(next));
    SHOW(cuStreamSynchronize(other));
    SHOW(cuStreamDestroy(next));
}

/* Another stream's work never ends: nothing of the shim's may wait for it. */
static void a_stream_that_never_ends(CUstream stream, CUstream endless)
{
    CUdeviceptr block = 0, busy = 0;
    int failures = 0;

    cuMemAllocAsync(&busy, BYTES, endless);
    cuStreamSynchronize(endless);
    sim_hold(endless);
    cuMemsetD8Async(busy, 1, BYTES, endless);
    for (int i = 0; i < 1000; i++)
        failures += cuMemAllocAsync(&block, BYTES, stream) || cuMemsetD8Async(block, 2, BYTES, stream) ||
                    cuMemFreeAsync(block, stream);
    failures += cuStreamSynchronize(stream) != CUDA_SUCCESS;
    FACT(failures);
    sim_release(endless);
    cuStreamSynchronize(endless);
    SHOW(cuMemFreeAsync(busy, endless));
    SHOW(cuStreamSynchronize(endless));
}

static void *destroy(void *context)
{
    return (void *)(uintptr_t)cuCtxDestroy(context);
}

/* A context destroyed while a copy out of its memory waits: the driver lets the copy run, and nothing is poisoned before. */
static void a_context_with_work_pending(CUcontext primary)
{
    CUcontext own = NULL;
    CUstream stream = NULL;
    CUdeviceptr block = 0;
    unsigned char *copy = NULL;
    pthread_t thread;
    void *code = NULL;

    SHOW(cuMemHostAlloc((void **)&copy, BYTES, CU_MEMHOSTALLOC_PORTABLE));
    SHOW(cuCtxCreate_v2(&own, 0, 0));
    SHOW(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    SHOW(cuMemAlloc(&block, BYTES));
    SHOW(cuMemsetD8(block, 7, BYTES));
    SHOW(cuCtxSynchronize());
    sim_hold(stream);
    SHOW(cuMemcpyDtoHAsync(copy, block, BYTES, stream));
    pthread_create(&thread, NULL, destroy, own);
    usleep(50000); /* long enough to be wrong in */
    sim_release_all();
    pthread_join(thread, &code);
    FACT(code);
    FACT(copy[0]);
    FACT(copy[BYTES - 1]);
    SHOW(cuCtxSetCurrent(primary));
    SHOW(cuMemFreeHost(copy));
}

int main(void)
{
    CUstream stream, other;

    CUcontext primary = begin();
    cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    cuStreamCreate(&other, CU_STREAM_NON_BLOCKING);
    free_behind_held_work(stream, other);
    destroy_with_work_pending(other);
    a_stream_that_never_ends(stream, other);
    SHOW(cuStreamDestroy(stream));
    SHOW(cuStreamDestroy(other));
    a_context_with_work_pending(primary);
    FACT(sim_violations());
    FACT(sim_misuses());
    return 0;
}
