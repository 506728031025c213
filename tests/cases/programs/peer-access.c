/* Two devices: access enabled before the first block and after it, twice, disabled, and asked for in vain. */
#include "case.h"

int main(void)
{
    CUcontext context[2];
    CUdeviceptr p = 0, q = 0;
    int can = 0;

    alarm(200);
    SHOW(cuInit(0));
    SHOW(cuDeviceCanAccessPeer(&can, 0, 1));
    FACT(can);
    for (int i = 0; i < 2; i++)
        SHOW(cuDevicePrimaryCtxRetain(&context[i], i));
    SHOW(cuCtxSetCurrent(context[0]));
    SHOW(cuCtxEnablePeerAccess(context[1], 0));
    SHOW(cuCtxEnablePeerAccess(context[1], 0));
    SHOW(cuCtxEnablePeerAccess(context[0], 0));
    SHOW(cuCtxEnablePeerAccess(context[1], 1));
    SHOW(cuCtxSetCurrent(context[1]));
    SHOW(cuMemAlloc_v2(&q, 1000));
    SHOW(cuCtxSetCurrent(context[0]));
    SHOW(cuMemAlloc_v2(&p, 1000));
    SHOW(cuMemcpyDtoD_v2(p, q, 1000));
    SHOW(cuCtxSetCurrent(context[1]));
    SHOW(cuCtxEnablePeerAccess(context[0], 0)); /* after the block */
    SHOW(cuMemcpyDtoD_v2(q, p, 1000));
    SHOW(cuCtxDisablePeerAccess(context[0]));
    SHOW(cuCtxDisablePeerAccess(context[0]));
    SHOW(cuMemFree_v2(p));
    SHOW(cuMemFree_v2(q));
    return 0;
}
