/* A device is reset twice with a block live each time, without asking for its context again. */
#include "case.h"

int main(void)
{
    CUcontext primary = begin_case();
    CUdeviceptr p = 0;

    for (int i = 0; i < 2; i++) {
        SHOW(cuMemAlloc(&p, 1000));
        SHOW(cuDevicePrimaryCtxReset(0));
        SHOW(cuCtxSetCurrent(primary));
        SHOW(cuMemFree(p));
    }
    return 0;
}
