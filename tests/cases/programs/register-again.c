/* B29: host memory is registered and unregistered in turn, and its address used again at once: nothing of it is put off. */
#include "case.h"

#include <sys/mman.h>

int main(void)
{
    void *own = aligned_alloc(4096, 8192), *pinned = NULL, *again;

    begin_case();
    for (int i = 0; i < 2; i++) {
        SHOW(cuMemHostRegister(own, 8192, 0));
        SHOW(cuMemHostUnregister(own));
    }
    SHOW(cuMemAllocHost(&pinned, 4096));
    SHOW(cuMemFreeHost(pinned));
    again = mmap(pinned, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    FACT(again != MAP_FAILED);
    memset(again, 1, 4096);
    SHOW(cuMemHostRegister(again, 4096, 0));
    SHOW(cuMemHostUnregister(again));
    free(own);
    return 0;
}
