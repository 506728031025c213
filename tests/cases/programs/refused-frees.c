/* Frees that are refused: double, of another kind, inside a block, of nothing. The calls are in functions with names. */
#include "tests/integration/programs/transcript.h"

NAMED(CUdeviceptr allocates_it(size_t bytes))
{
    CUdeviceptr p = MARK;
    SHOW(cuMemAlloc(&p, bytes));
    return p;
}

NAMED(void frees_it(CUdeviceptr p))
{
    SHOW(cuMemFree(p));
}

NAMED(void frees_it_again(CUdeviceptr p))
{
    for (volatile int i = 0; i < 3; i++)
        SHOW(cuMemFree(p));
}

NAMED(void *allocates_host_memory(size_t bytes))
{
    void *p = NULL;
    SHOW(cuMemAllocHost(&p, bytes));
    return p;
}

NAMED(void frees_it_as_host_memory(CUdeviceptr p))
{
    SHOW(cuMemFreeHost((void *)(uintptr_t)p));
}

NAMED(void frees_host_memory(void *p))
{
    SHOW(cuMemFree((CUdeviceptr)(uintptr_t)p));
}

NAMED(void frees_the_middle(CUdeviceptr p))
{
    SHOW(cuMemFree(p + 512));
}

NAMED(void unregisters_nothing(void *p))
{
    SHOW(cuMemHostUnregister(p));
}

int main(void)
{
    static char own[64];

    begin();
    CUdeviceptr p = allocates_it(3000), q = allocates_it(5000);
    frees_it(p);
    frees_it_again(p);
    frees_it_as_host_memory(q);
    frees_the_middle(q);
    void *pinned = allocates_host_memory(100);
    frees_host_memory(pinned);
    unregisters_nothing(own);
    frees_it(q);
    SHOW(cuMemFreeHost(pinned));
    q = allocates_it(5000); /* where another block was freed before */
    frees_it_as_host_memory(q);
    frees_it(q);
    return 0;
}
