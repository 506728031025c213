/* B14: frees of the middle of a block, of pinned and of registered memory, by each call. Each is refused, and no block is lost by it. */
#include <sys/mman.h>

#include "case.h"

enum { BYTES = 16384 };

NAMED(CUdeviceptr allocates_it(void))
{
    CUdeviceptr p = 0;

    SHOW(cuMemAlloc(&p, BYTES));
    return p;
}

NAMED(void *allocates_the_hosts(void))
{
    void *pinned = NULL;

    SHOW(cuMemHostAlloc(&pinned, BYTES, 0));
    return pinned;
}

NAMED(void frees_a_middle(CUdeviceptr block))
{
    SHOW(cuMemFree(block + 1000));
    SHOW(cuMemFreeAsync(block + BYTES - 1, NULL));
}

NAMED(void frees_a_middle_of_the_hosts(char *pinned))
{
    SHOW(cuMemFreeHost(pinned + 1000));
}

int main(void)
{
    char *registered = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CUdeviceptr p, ordered = 0;
    void *pinned;

    begin_case();
    p = allocates_it();
    SHOW(cuMemAllocAsync(&ordered, BYTES, NULL));
    SHOW(cuStreamSynchronize(NULL));
    pinned = allocates_the_hosts();
    SHOW(cuMemHostRegister(registered, BYTES, 0));
    frees_a_middle(p);
    SHOW(cuMemFree(ordered + 1000));
    frees_a_middle_of_the_hosts(pinned);
    SHOW(cuMemHostUnregister(registered + 4096));
    SHOW(cuMemFree(p));
    SHOW(cuMemFree(ordered));
    SHOW(cuMemFreeHost(pinned));
    SHOW(cuMemHostUnregister(registered));
    return 0;
}
