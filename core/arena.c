#include "arena.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "populate.h"

#define PAGE NXM_POPULATE_PAGE

/* Where no kernel puts anything of itself; the first is the thread sanitizer's for programs, but the address sanitizer's own. */
static const uint64_t places[] = { UINT64_C(0x4000000000), UINT64_C(0x2a0000000000) };

/* A longer file would be a SIGXFSZ. */
static bool may_be_so_long(uint64_t bytes)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= bytes;
}

static struct nxm_arena *map_somewhere(int fd, uint64_t capacity)
{
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        void *wanted = (void *)(uintptr_t)places[i];
        void *at = mmap(wanted, capacity, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0);

        if (at == wanted)
            return at;
        if (at != MAP_FAILED) /* an older kernel takes it for a hint */
            munmap(at, capacity);
    }
    return NULL;
}

struct nxm_arena *nxm_arena_new(int fd, uint64_t capacity)
{
    struct nxm_arena *arena;
    int error = EFBIG;

    if (!may_be_so_long(capacity) || ftruncate(fd, (off_t)capacity) != 0 ||
        (error = posix_fallocate(fd, 0, PAGE)) != 0) {
        errno = error;
        return NULL;
    }
    arena = map_somewhere(fd, capacity);
    if (arena == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    struct stat st;
    if (fstat(fd, &st) == 0) {
        arena->device = (uint64_t)st.st_dev;
        arena->inode = (uint64_t)st.st_ino;
    }
    arena->base = (uint64_t)(uintptr_t)arena;
    arena->capacity = capacity;
    atomic_init(&arena->used, PAGE);
    return arena;
}

/* The program may have closed our descriptor, and got the number for a file of its own. */
static bool is_ours(const struct nxm_arena *arena, int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && (uint64_t)st.st_dev == arena->device && (uint64_t)st.st_ino == arena->inode;
}

/* Takes the room on the disk, by the mapping where the kernel can (5.14) and may, else by the descriptor. */
static bool claim(const struct nxm_arena *arena, int fd, uint64_t at, uint64_t bytes)
{
    int error = nxm_populate((char *)(uintptr_t)arena->base + at, bytes);

    if (error == 0)
        return true;
    return error != ENOMEM && error != EFAULT && is_ours(arena, fd) && posix_fallocate(fd, (off_t)at, (off_t)bytes) == 0;
}

void *nxm_arena_take(struct nxm_arena *arena, int fd, size_t bytes)
{
    uint64_t rounded = (bytes + PAGE - 1) & ~(uint64_t)(PAGE - 1), at = atomic_load(&arena->used);
    int error = errno;

    do {
        if (rounded < bytes || rounded > arena->capacity - at) {
            atomic_fetch_add(&arena->missed, bytes);
            return NULL;
        }
    } while (!atomic_compare_exchange_weak(&arena->used, &at, at + rounded));
    bool claimed = claim(arena, fd, at, rounded);
    errno = error;
    if (!claimed) {
        atomic_fetch_add(&arena->missed, bytes);
        return NULL;
    }
    return (char *)arena + at;
}

bool nxm_arena_holds(const struct nxm_arena *arena, const void *at, uint64_t bytes)
{
    uint64_t offset = (uintptr_t)at - arena->base;

    return offset < arena->capacity && bytes <= arena->capacity - offset;
}

bool nxm_arena_give(const struct nxm_arena *arena, void *pages, size_t bytes)
{
    int error = errno;

    if (!nxm_arena_holds(arena, pages, 1))
        return false;
    if (madvise(pages, bytes, MADV_REMOVE) != 0)
        madvise(pages, bytes, MADV_DONTNEED); /* the file keeps what was there: nobody looks at it */
    errno = error;
    return true;
}
