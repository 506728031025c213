/* B48: frees of nothing, the first of which creates the context. */
#include "case.h"

int main(void)
{
    CUcontext context = NULL;
    cudaStream_t stream;

    alarm(200);
    SHOW_RT(cudaFree(0));
    SHOW(cuCtxGetCurrent(&context));
    FACT(context != NULL);
    SHOW_RT(cudaStreamCreate(&stream));
    SHOW(cuMemFree(0));
    SHOW(cuMemFreeHost(NULL));
    SHOW(cuMemHostUnregister(NULL));
    SHOW(cuMemFreeAsync(0, stream));
    SHOW(cuMemFreeAsync(0, NULL));
    SHOW_RT(cudaFree(NULL));
    SHOW_RT(cudaFreeHost(NULL));
    SHOW_RT(cudaFreeAsync(NULL, stream));
    SHOW_RT(cudaHostUnregister(NULL));
    SHOW_RT(cudaFreeArray(NULL));
    SHOW_RT(cudaPeekAtLastError());
    return 0;
}
