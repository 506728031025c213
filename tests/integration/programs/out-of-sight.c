/* A program of which part is out of the shim's sight: out-of-sight WAY RUNTIME [SHIM]. One block of its own is always left, so that
 * there is a report. */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "transcript.h"

typedef int allocate(void **pointer, size_t size);

/* What the runtime there allocates: 0 when all went well. */
static int use(void *runtime)
{
    allocate *cuda_malloc = runtime ? (allocate *)dlsym(runtime, "cudaMalloc") : NULL;
    void *pointer = NULL;

    return cuda_malloc ? cuda_malloc(&pointer, 2000) : -1;
}

int main(int argc, char **argv)
{
    CUdeviceptr p = 0;

    if (argc < 3)
        return 2;
    if (strcmp(argv[1], "late") == 0) { /* preloading is for others */
        begin();
        SHOW(cuMemAlloc(&p, 1000));
        FACT(argc > 3 && dlopen(argv[3], RTLD_NOW) != NULL);
        SHOW(cuMemFree(p));
        SHOW(cuMemAlloc(&p, 1000));
        FACT(use(dlopen(argv[2], RTLD_NOW)));
        return 0;
    }
    begin();
    SHOW(cuMemAlloc(&p, 1000)); /* stays */
    if (strcmp(argv[1], "namespace") == 0)
        FACT(use(dlmopen(LM_ID_NEWLM, argv[2], RTLD_NOW)));
    else if (strcmp(argv[1], "same-namespace") == 0)
        FACT(use(dlmopen(LM_ID_BASE, argv[2], RTLD_NOW)));
    else if (strcmp(argv[1], "deepbind") == 0)
        FACT(use(dlopen(argv[2], RTLD_NOW | RTLD_DEEPBIND)));
    else
        return 2;
    return 0;
}
