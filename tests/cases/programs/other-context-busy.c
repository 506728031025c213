/* Memory of one context is free; then it gets work that waits for the program. Calls in another context do not wait for that. */
#include "case.h"

#include <stdatomic.h>

static atomic_int go;

static void wait_for_program(void *unused)
{
    (void)unused;
    while (!go)
        usleep(1000);
}

int main(int argc, char **argv)
{
    const char *call = argc > 1 ? argv[1] : "";
    CUcontext first = begin_case(), second;
    CUstream stream;
    CUdeviceptr p;
    size_t free_bytes, total;

    SHOW(cuCtxCreate(&second, NULL, 0, 0));
    SHOW(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    SHOW(cuMemAlloc(&p, 1 << 20));
    SHOW(cuMemFree(p));
    SHOW(cuLaunchHostFunc(stream, wait_for_program, NULL));
    SHOW(cuCtxSetCurrent(first));
    if (strcmp(call, "info") == 0)
        SHOW(cuMemGetInfo(&free_bytes, &total));
    if (strcmp(call, "synchronize") == 0)
        SHOW(cuCtxSynchronize());
    if (strcmp(call, "allocate") == 0)
        SHOW(cuMemAlloc(&p, (size_t)1 << 50));
    go = 1;
    SHOW(cuCtxSetCurrent(second));
    SHOW(cuCtxSynchronize());
    return 0;
}
