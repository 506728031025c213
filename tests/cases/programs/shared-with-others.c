/* Whether a block may go to other processes and other drivers, told by attribute and by trying: the two agree. */
#include <fcntl.h>

#include "case.h"

static void can(const char *what, CUdeviceptr p)
{
    unsigned ipc = 9, rdma = 9;
    CUipcMemHandle handle;
    int fd = -1;

    printf("-- %s\n", what);
    SHOW(cuPointerGetAttribute(&ipc, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, p));
    SHOW(cuPointerGetAttribute(&rdma, CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, p));
    CUresult exported = cuIpcGetMemHandle(&handle, p);
    CUdeviceptr page = p & ~(CUdeviceptr)4095;
    CUresult given = cuMemGetHandleForAddressRange(&fd, page == p ? p : page + 4096, 4096, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
    FACT((exported == CUDA_SUCCESS) == (ipc == 1));
    FACT((given == CUDA_SUCCESS) == (fcntl(fd, F_GETFD) >= 0));
    fprintf(stderr, "%s: ipc %u rdma %u export %d dma-buf %d\n", what, ipc, rdma, (int)exported, (int)given);
}

int main(void)
{
    CUdeviceptr p = 0, ordered = 0;
    CUstream stream;
    int fd = 7;

    begin_case();
    SHOW(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    SHOW(cuMemAlloc_v2(&p, 1 << 20));
    SHOW(cuMemAllocAsync(&ordered, 1 << 20, stream));
    SHOW(cuStreamSynchronize(stream));
    can("a block", p);
    can("an ordered block", ordered);
    SHOW(cuMemGetHandleForAddressRange(&fd, p, 0, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
    SHOW(cuMemGetHandleForAddressRange(NULL, p, 4096, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
    FACT(fd);
    SHOW(cuMemFree_v2(p));
    SHOW(cuMemFree_v2(ordered));
    return 0;
}
