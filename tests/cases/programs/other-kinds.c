/* B07: memory by the less used calls, half of it freed. */
#include "case.h"

int main(void)
{
    CUdeviceptr pitched[2] = { 0 }, managed[2] = { 0 };
    struct cudaPitchedPtr cube[2];
    cudaArray_t runtime_array[2];
    struct cudaChannelFormatDesc floats = { 32, 0, 0, 0, cudaChannelFormatKindFloat };
    CUDA_ARRAY_DESCRIPTOR plane = { 64, 32, CU_AD_FORMAT_FLOAT, 1 };
    CUarray array[2];
    void *pinned[2] = { 0 };
    size_t pitch = 0;

    begin_case();
    for (int i = 0; i < 2; i++) {
        SHOW(cuMemAllocPitch(&pitched[i], &pitch, 100, 10, 4));
        SHOW_RT(cudaMalloc3D(&cube[i], (struct cudaExtent){ 100, 10, 3 }));
        SHOW(cuArrayCreate(&array[i], &plane));
        SHOW_RT(cudaMallocArray(&runtime_array[i], &floats, 16, 16, 0));
        SHOW(cuMemAllocManaged(&managed[i], 5000, CU_MEM_ATTACH_GLOBAL));
        SHOW(cuMemHostAlloc(&pinned[i], 6000, 0));
    }
    SHOW(cuMemFree(pitched[0]));
    SHOW_RT(cudaFree(cube[0].ptr));
    SHOW(cuArrayDestroy(array[0]));
    SHOW_RT(cudaFreeArray(runtime_array[0]));
    SHOW(cuMemFree(managed[0]));
    SHOW(cuMemFreeHost(pinned[0]));
    FACT(pitch * 10);
    FACT(cube[1].pitch * 10 * 3);
    return 0;
}
