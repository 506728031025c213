/* Frees behind work that the simulator holds back: the memory stays what it was until that work has run. Knows the simulated
 * driver's controls; the transcript is the same natively and under the shim. */
#include "transcript.h"

#include "tests/sim/simcuda.h"

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

int main(void)
{
    CUstream stream, other;

    begin();
    cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    cuStreamCreate(&other, CU_STREAM_NON_BLOCKING);
    free_behind_held_work(stream, other);
    destroy_with_work_pending(other);
    a_stream_that_never_ends(stream, other);
    SHOW(cuStreamDestroy(stream));
    SHOW(cuStreamDestroy(other));
    FACT(sim_violations());
    FACT(sim_misuses());
    return 0;
}
