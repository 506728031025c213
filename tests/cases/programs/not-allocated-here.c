/* B14: frees of memory that is not the program's to free, or came by another way: the driver judges each. */
#include "case.h"

int main(void)
{
    CUmodule module;
    CUdeviceptr global = 0, mapped = 0, p = 0;
    size_t bytes = 0;
    void *pinned = NULL;
    int local = 0;

    begin_case();
    if (SHOW(cuModuleLoadData(&module, "image")) == CUDA_SUCCESS && SHOW(cuModuleGetGlobal(&global, &bytes, module, "g")) == 0)
        SHOW(cuMemFree(global));
    SHOW(cuMemHostAlloc(&pinned, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    SHOW(cuMemHostGetDevicePointer(&mapped, pinned, 0));
    SHOW(cuMemFree(mapped));
    SHOW(cuMemFreeAsync(mapped, NULL));
    SHOW(cuMemFreeHost(pinned));
    SHOW(cuMemFree((CUdeviceptr)(uintptr_t)&local));
    SHOW(cuMemFreeHost(&local));
    SHOW(cuMemFreeHost((void *)(uintptr_t)0x1230));
    SHOW(cuMemAlloc(&p, 4096));
    SHOW(cuMemFreeHost((void *)(uintptr_t)p));
    SHOW(cuMemHostUnregister((void *)(uintptr_t)p));
    SHOW(cuMemFree(p + 256));
    SHOW(cuIpcCloseMemHandle(p));
    SHOW(cuMemAddressFree(p, 4096));
    SHOW(cuMemUnmap(p, 4096));
    SHOW(cuMemFree(p));
    SHOW(cuMemFree(p));
    return 0;
}
