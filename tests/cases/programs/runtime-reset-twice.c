/* cudaDeviceReset twice with a block live each time. */
#include "case.h"

int main(void)
{
    void *p = NULL;

    alarm(200);
    for (int i = 0; i < 2; i++) {
        SHOW_RT(cudaMalloc(&p, 1000));
        SHOW_RT(cudaDeviceReset());
        SHOW_RT(cudaFree(p));
        SHOW_RT(cudaGetLastError());
    }
    SHOW_RT(cudaMalloc(&p, 1000));
    SHOW_RT(cudaFree(p));
    return 0;
}
