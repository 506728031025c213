#include "page.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "verdict.h"

void *page_ending(size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *start = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED || mprotect(start + page, page, PROT_NONE) != 0) skips("this machine has no memory left");
    return start + page - bytes;
}

void page_close(void *memory) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    mprotect((void *)((uintptr_t)memory & ~(page - 1)), page, PROT_NONE);
}
