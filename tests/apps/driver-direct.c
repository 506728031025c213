/* A program that links no CUDA library and finds the driver by dlopen and dlsym alone, as ffmpeg and hashcat do. Frees one
 * of two synchronous blocks and one of two stream-ordered ones. */
#include <cudaTypedefs.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static void *find(void *libcuda, const char *symbol)
{
    void *function = dlsym(libcuda, symbol);

    if (!function) {
        fprintf(stderr, "driver-direct: %s\n", dlerror());
        exit(1);
    }
    return function;
}

static void check(CUresult result, const char *what)
{
    if (result == CUDA_SUCCESS)
        return;
    fprintf(stderr, "driver-direct: %s: %d\n", what, (int)result);
    exit(1);
}

int main(void)
{
    void *libcuda = dlopen("libcuda.so.1", RTLD_NOW);
    CUdeviceptr kept, freed, kept_async, freed_async;
    CUcontext context;
    CUdevice device;

    if (!libcuda) {
        fprintf(stderr, "driver-direct: %s\n", dlerror());
        return 1;
    }

    PFN_cuInit_v2000 init = find(libcuda, "cuInit");
    PFN_cuDeviceGet_v2000 device_get = find(libcuda, "cuDeviceGet");
    PFN_cuDevicePrimaryCtxRetain_v7000 retain = find(libcuda, "cuDevicePrimaryCtxRetain");
    PFN_cuCtxSetCurrent_v4000 set_current = find(libcuda, "cuCtxSetCurrent");
    PFN_cuMemAlloc_v3020 alloc = find(libcuda, "cuMemAlloc_v2");
    PFN_cuMemFree_v3020 release = find(libcuda, "cuMemFree_v2");
    PFN_cuMemAllocAsync_v11020 alloc_async = find(libcuda, "cuMemAllocAsync");
    PFN_cuMemFreeAsync_v11020 free_async = find(libcuda, "cuMemFreeAsync");
    PFN_cuCtxSynchronize_v2000 synchronize = find(libcuda, "cuCtxSynchronize");

    check(init(0), "cuInit");
    check(device_get(&device, 0), "cuDeviceGet");
    check(retain(&context, device), "cuDevicePrimaryCtxRetain");
    check(set_current(context), "cuCtxSetCurrent");
    check(alloc(&kept, 5000), "cuMemAlloc");
    check(alloc(&freed, 6000), "cuMemAlloc");
    check(alloc_async(&kept_async, 7000, NULL), "cuMemAllocAsync");
    check(alloc_async(&freed_async, 8000, NULL), "cuMemAllocAsync");
    check(release(freed), "cuMemFree");
    check(free_async(freed_async, NULL), "cuMemFreeAsync");
    check(synchronize(), "cuCtxSynchronize");
    puts("driver-direct: kept 5000 synchronous and 7000 stream-ordered bytes");
    return 0;
}
