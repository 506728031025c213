/* B42: outputs that the program does not want, before there is a driver, a context, and after. */
#include "case.h"

static void totals(void)
{
    size_t free_bytes = MARK, total = MARK;

    SHOW(cuMemGetInfo(NULL, &total));
    FACT(total == MARK);
    SHOW(cuMemGetInfo(&free_bytes, NULL));
    FACT(free_bytes == MARK);
    SHOW(cuMemGetInfo(NULL, NULL));
}

int main(void)
{
    CUdeviceptr p = 0;
    size_t pitch = 0, total = 0;
    CUstream stream = NULL;
    CUDA_ARRAY_DESCRIPTOR plane = { 64, 32, CU_AD_FORMAT_FLOAT, 1 };
    CUmemAllocationProp properties = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                       .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 } };
    CUmemoryPool pool;
    void *q = NULL;

    alarm(200);
    totals();
    SHOW(cuInit(0));
    totals();
    begin_case();
    totals();
    SHOW(cuMemAlloc(NULL, 16));
    SHOW(cuMemAllocAsync(NULL, 16, stream));
    SHOW(cuDeviceGetDefaultMemPool(&pool, 0));
    SHOW(cuMemAllocFromPoolAsync(NULL, 16, pool, stream));
    SHOW(cuMemAllocFromPoolAsync(&p, 16, NULL, stream));
    SHOW(cuMemAllocPitch(NULL, &pitch, 100, 10, 4));
    SHOW(cuMemAllocPitch(&p, NULL, 100, 10, 4));
    SHOW(cuMemAllocManaged(NULL, 16, CU_MEM_ATTACH_GLOBAL));
    SHOW(cuMemAllocHost(NULL, 16));
    SHOW(cuMemHostAlloc(NULL, 16, 0));
    SHOW(cuMemHostRegister(NULL, 16, 0));
    SHOW(cuArrayCreate(NULL, &plane));
    SHOW(cuArrayDestroy(NULL));
    SHOW(cuMemAddressReserve(NULL, 2 << 20, 0, 0, 0));
    SHOW(cuMemCreate(NULL, 2 << 20, &properties, 0));
    SHOW(cuIpcGetMemHandle(NULL, 0));
    SHOW(cuStreamEndCapture(stream, NULL));
    SHOW(cuCtxDestroy(NULL));
    SHOW_RT(cudaMemGetInfo(NULL, &total));
    SHOW_RT(cudaMalloc(NULL, 16));
    SHOW_RT(cudaMallocAsync(NULL, 16, NULL));
    SHOW_RT(cudaMallocHost(NULL, 16));
    SHOW_RT(cudaMallocPitch(&q, NULL, 10, 10));
    SHOW_RT(cudaMallocPitch(NULL, &pitch, 10, 10));
    SHOW_RT(cudaMallocManaged(NULL, 16, cudaMemAttachGlobal));
    SHOW_RT(cudaGetLastError());
    return 0;
}
