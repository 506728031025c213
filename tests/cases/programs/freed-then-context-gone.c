/* What the program freed before its context went was freed, however long its owner took. */
#include "case.h"

int main(void)
{
    CUcontext own = NULL;
    CUdeviceptr p = 0;

    begin_case();
    SHOW(cuCtxCreate(&own, NULL, 0, 0));
    SHOW(cuMemAlloc(&p, 2000));
    SHOW(cuMemAlloc(&p, 1000));
    SHOW(cuMemFree(p));
    SHOW(cuCtxDestroy(own));
    return 0;
}
