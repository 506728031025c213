/* What was freed in one context is room for another one. The device has 64 MiB. */
#include "case.h"

enum { MIB = 1 << 20 };

int main(void)
{
    CUcontext first = begin_case(), second;
    size_t free_bytes, total;
    CUdeviceptr p;

    SHOW(cuCtxCreate(&second, NULL, 0, 0));
    SHOW(cuMemAlloc(&p, 40 * MIB));
    SHOW(cuMemFree(p));
    SHOW(cuCtxSetCurrent(first));
    SHOW(cuMemGetInfo(&free_bytes, &total));
    FACT(free_bytes >> 20);
    SHOW(cuMemAlloc(&p, 40 * MIB));
    SHOW(cuMemFree(p));
    SHOW(cuCtxSetCurrent(second));
    SHOW(cuMemAllocManaged(&p, 40 * MIB, CU_MEM_ATTACH_GLOBAL));
    return 0;
}
