/* B18, B20: a library that leaks a block at each call, and nothing else. */
#include <cuda.h>

CUresult leak_of_a_library(void);

CUresult leak_of_a_library(void)
{
    CUdeviceptr p = 0;

    return cuMemAlloc(&p, 1000);
}
