#include "mem.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>

static atomic_ulong requests_to_failure; /* 0: none planned */

static bool planned_failure(void)
{
    unsigned long left = atomic_load_explicit(&requests_to_failure, memory_order_relaxed);

    while (left != 0) {
        if (atomic_compare_exchange_weak(&requests_to_failure, &left, left - 1))
            return left == 1;
    }
    return false;
}

void *nxm_mem_new(size_t bytes)
{
    if (bytes == 0 || planned_failure())
        return NULL;
    return calloc(1, bytes);
}

void nxm_mem_free(void *object)
{
    free(object);
}

void *nxm_mem_map(size_t bytes)
{
    void *pages;

    if (bytes == 0 || planned_failure())
        return NULL;
    pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return pages == MAP_FAILED ? NULL : pages;
}

void nxm_mem_unmap(void *pages, size_t bytes)
{
    if (pages != NULL)
        munmap(pages, bytes);
}

void nxm_mem_fail_at(unsigned long n)
{
    atomic_store(&requests_to_failure, n);
}
