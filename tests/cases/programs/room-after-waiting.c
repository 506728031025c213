/* B50, B51: memory that waits behind work becomes room again once the work has run, and an allocation that needs it succeeds
 * without an error of its own. While the work still runs the answer is out of memory, exactly, and nothing is written. The
 * device, or the plugin, has 64 MiB. */
#include "case.h"

enum { MIB = 1 << 20 };

int main(void)
{
    CUstream stream, other;
    CUdeviceptr p = 0, q = MARK;
    CUmemoryPool pool;
    int no = 0;

    begin_case();
    SHOW_RT(cudaSetDevice(77));
    SHOW(cuDeviceGetDefaultMemPool(&pool, 0)); /* a plugin puts no dependencies between the program's streams */
    SHOW(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &no));
    SHOW(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    SHOW(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    SHOW(cuMemAllocAsync(&p, 40 * MIB, stream));
    SHOW(cuStreamSynchronize(stream));
    sim_hold(stream);
    SHOW(cuMemsetD8Async(p, 1, 4096, stream));
    SHOW(cuMemFreeAsync(p, stream));
    SHOW(cuMemAllocAsync(&q, 40 * MIB, other));
    FACT(q == MARK);
    SHOW(cuMemAlloc(&q, 40 * MIB));
    FACT(q == MARK);
    sim_release(stream);
    SHOW(cuStreamSynchronize(stream));
    SHOW(cuMemAllocAsync(&q, 40 * MIB, stream));
    SHOW(cuMemFreeAsync(q, stream));
    SHOW(cuStreamSynchronize(stream));
    SHOW_RT(cudaPeekAtLastError());
    FACT(sim_violations());
    return 0;
}
