/* For programs whose whole output must be the same with and without the shim: calls and their codes, never addresses. */
#ifndef TRANSCRIPT_H
#define TRANSCRIPT_H

#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline CUresult show_(const char *what, CUresult result)
{
    printf("%s -> %d\n", what, (int)result);
    fflush(stdout);
    return result;
}
#define SHOW(call) show_(#call, (call))

static inline void show_fact_(const char *what, long long value)
{
    printf("%s = %lld\n", what, value);
    fflush(stdout);
}
#define FACT(expression) show_fact_(#expression, (long long)(expression))

/* A function seen by the loader, and so by the shim. */
#define NAMED(declaration)                                            \
    __attribute__((noinline, visibility("default"))) declaration; \
    declaration

/* The first device's primary context, current on this thread. */
static inline CUcontext begin(void)
{
    CUcontext context = NULL;
    CUdevice device;

    if (cuInit(0) != CUDA_SUCCESS || cuDeviceGet(&device, 0) != CUDA_SUCCESS ||
        cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS || cuCtxSetCurrent(context) != CUDA_SUCCESS) {
        puts("no device");
        exit(99);
    }
    return context;
}

#define MARK UINT64_C(0x1122334455667788)

#endif
