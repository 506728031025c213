/* B55: kernels of one device at another's memory that was there before access was enabled, and that came after; and when access has
 * ended, at memory that had it, and at new memory. The simulated driver says of each launch whether its device could reach it. */
#include "case.h"

static CUcontext context[2];
static CUstream stream;

static CUdeviceptr block_of_first(void)
{
    CUdeviceptr p = 0;

    SHOW(cuCtxSetCurrent(context[0]));
    SHOW(cuMemAlloc_v2(&p, 5000));
    return p;
}

static void reach(const char *what, CUdeviceptr p)
{
    uint64_t before = sim_findings("no-peer-access") + sim_findings("no-access");

    SHOW(cuCtxSetCurrent(context[1]));
    FACT(sim_launch_touch(stream, p, 5000));
    SHOW(cuStreamSynchronize(stream));
    printf("%s: %s\n", what, sim_findings("no-peer-access") + sim_findings("no-access") > before ? "out of reach" : "reached");
}

int main(void)
{
    alarm(200);
    SHOW(cuInit(0));
    for (int i = 0; i < 2; i++)
        SHOW(cuDevicePrimaryCtxRetain(&context[i], i));
    SHOW(cuCtxSetCurrent(context[1]));
    SHOW(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CUdeviceptr before = block_of_first(), both = block_of_first();
    reach("not enabled", before);
    SHOW(cuCtxEnablePeerAccess(context[0], 0));
    CUdeviceptr after = block_of_first();
    reach("before", before);
    reach("after", after);
    SHOW(cuCtxDisablePeerAccess(context[0]));
    CUdeviceptr late = block_of_first();
    reach("ended", both);
    reach("late", late);
    SHOW(cuMemFree_v2(before));
    SHOW(cuMemFree_v2(both));
    SHOW(cuMemFree_v2(after));
    SHOW(cuMemFree_v2(late));
    return 0;
}
