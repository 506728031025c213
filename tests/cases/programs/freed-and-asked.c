/* B34: a handle for other processes is asked for memory that was freed, synchronously, in a stream, and behind work that has not run:
 * there is none to be had, whoever still has the memory. */
#include "case.h"

static void ask(CUdeviceptr at)
{
    CUipcMemHandle handle, before;

    memset(&handle, 0x55, sizeof handle);
    before = handle;
    SHOW(cuIpcGetMemHandle(&handle, at));
    FACT(memcmp(&handle, &before, sizeof handle) == 0);
}

int main(void)
{
    CUdeviceptr p = 0, q = 0;
    CUstream stream;

    begin_case();
    SHOW(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    SHOW(cuMemAlloc(&p, 1 << 20));
    SHOW(cuMemAlloc(&q, 1 << 20));
    SHOW(cuMemFree(p));
    ask(p);
    ask(p + 1000);
    sim_hold(stream);
    SHOW(cuMemsetD8Async(q, 1, 1000, stream));
    SHOW(cuMemFreeAsync(q, stream));
    ask(q);
    sim_release(stream);
    SHOW(cuStreamSynchronize(stream));
    ask(q);
    return 0;
}
