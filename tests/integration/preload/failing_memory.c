/* Preloaded behind the shim: the n-th time that the shim asks for memory there is none. Others are served. Until it is told an n it
 * counts, and fails nothing. */
#include "inside_shim.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

void *__libc_calloc(size_t count, size_t bytes);

static _Atomic unsigned long asked, fails;

__attribute__((constructor)) static void begin(void)
{
    dl_iterate_phdr(look_for_shim, NULL);
}

SHOWN void failing_memory_at(unsigned long n)
{
    asked = 0;
    fails = n;
}

SHOWN unsigned long failing_memory_asked(void)
{
    return asked;
}

static int is_refused(const void *caller)
{
    return is_inside_shim(caller) && ++asked == fails;
}

SHOWN void *calloc(size_t count, size_t bytes)
{
    return is_refused(__builtin_return_address(0)) ? NULL : __libc_calloc(count, bytes);
}

SHOWN void *mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    if (is_refused(__builtin_return_address(0))) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return (void *)syscall(SYS_mmap, address, bytes, protection, flags, fd, offset);
}
