#include "mem.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "arena.h"

static atomic_ulong requests_to_failure; /* 0: none planned */
static struct nxm_arena *_Atomic arena;
static int arena_fd;

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

static void *map(size_t bytes)
{
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return pages == MAP_FAILED ? NULL : pages;
}

void *nxm_mem_map(size_t bytes)
{
    return bytes == 0 || planned_failure() ? NULL : map(bytes);
}

void *nxm_mem_map_kept(size_t bytes)
{
    struct nxm_arena *in = atomic_load(&arena);
    void *pages = NULL;

    if (bytes == 0 || planned_failure())
        return NULL;
    if (in != NULL)
        pages = nxm_arena_take(in, arena_fd, bytes);
    return pages != NULL ? pages : map(bytes);
}

void nxm_mem_unmap(void *pages, size_t bytes)
{
    if (pages == NULL || (atomic_load(&arena) != NULL && nxm_arena_give(atomic_load(&arena), pages, bytes)))
        return;
    munmap(pages, bytes);
}

void nxm_mem_live_in(struct nxm_arena *in, int fd)
{
    arena_fd = fd;
    atomic_store(&arena, in);
}

void nxm_mem_fail_at(unsigned long n)
{
    atomic_store(&requests_to_failure, n);
}
