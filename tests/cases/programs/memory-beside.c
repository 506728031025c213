/* B44: memory that nobody allocated: a context's, a module's code, local memory from the first launch on, and what a driver takes that
 * no call names. SIMCUDA_CONTEXT_OVERHEAD and kin say how much; the program asks what is free. */
#include "case.h"

static void ask(const char *when)
{
    static size_t before;
    size_t unused = 0, total = 0;

    if (cuMemGetInfo_v2(&unused, &total) != CUDA_SUCCESS)
        exit(97);
    printf("%s: %zu MiB in use, before %zu\n", when, (total - unused) >> 20, before);
    before = (total - unused) >> 20;
}

int main(void)
{
    CUdeviceptr p = 0, q = 0, r = 0;
    CUmemAllocationProp physical = { .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 } };
    CUmemGenericAllocationHandle handle;
    CUarray array;
    CUDA_ARRAY_DESCRIPTOR shape = { .Width = 1024, .Height = 1024, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1 };
    CUmodule module;
    CUfunction function;

    begin_case();
    ask("context");
    SHOW(cuMemAlloc_v2(&p, 100 << 20));
    SHOW(cuMemAllocAsync(&q, 20 << 20, NULL));
    SHOW(cuMemCreate(&handle, 6 << 20, &physical, 0));
    SHOW(cuMemAllocManaged(&r, 2 << 20, CU_MEM_ATTACH_GLOBAL));
    SHOW(cuArrayCreate_v2(&array, &shape));
    ask("blocks");
    SHOW(cuModuleLoadData(&module, "module"));
    ask("code");
    SHOW(cuModuleGetFunction(&function, module, "kernel"));
    SHOW(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    SHOW(cuCtxSynchronize());
    ask("launch");
    SHOW(cuMemFree_v2(p));
    ask("freed");
    SHOW(cuMemFree_v2(q));
    return 0;
}
