/* Host, managed, pitched and array memory: observed kinds, freed in right and wrong ways. */
#include "transcript.h"

int main(void)
{
    void *pinned = NULL, *mapped = NULL, *own = aligned_alloc(4096, 8192);
    CUdeviceptr pitched = 0, managed = 0;
    size_t pitch = 0;
    CUarray array;
    CUDA_ARRAY_DESCRIPTOR plane = { 64, 32, CU_AD_FORMAT_FLOAT, 1 };
    CUDA_ARRAY3D_DESCRIPTOR cube = { 16, 8, 4, CU_AD_FORMAT_HALF, 2, 0 };

    begin();
    SHOW(cuMemAllocHost(&pinned, 12345));
    SHOW(cuMemHostAlloc(&mapped, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    SHOW(cuMemAllocHost(NULL, 16));
    SHOW(cuMemFree((CUdeviceptr)(uintptr_t)pinned));
    SHOW(cuMemFreeHost(pinned));
    SHOW(cuMemFreeHost(pinned));
    SHOW(cuMemFreeHost(NULL));
    SHOW(cuMemFreeHost(mapped));
    for (int i = 0; i < 2; i++) {
        SHOW(cuMemHostRegister(own, 8192, 0));
        SHOW(cuMemHostRegister(own, 8192, 0));
        SHOW(cuMemHostUnregister(own));
    }
    SHOW(cuMemHostUnregister(own));
    SHOW(cuMemHostUnregister(NULL));
    SHOW(cuMemAllocPitch(&pitched, &pitch, 100, 10, 4));
    FACT(pitch >= 100);
    SHOW(cuMemAllocPitch(&pitched, &pitch, 0, 10, 4));
    SHOW(cuMemFree(pitched));
    SHOW(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
    SHOW(cuMemFree(managed));
    SHOW(cuArrayCreate(&array, &plane));
    SHOW(cuArrayDestroy(array));
    SHOW(cuArray3DCreate(&array, &cube));
    SHOW(cuArrayDestroy(array));
    free(own);
    return 0;
}
