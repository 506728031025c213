/* What glibc 2.34 took into libc, or gave a new name there, as the linker's --wrap=NAME lets us have it: so that a shim built on
 * today's machine runs on those with glibc 2.17. Owns nothing; any thread.
 *
 * The functions lie where dlsym lies. A process without them answers as one in which nothing was found.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "route_libc.h"

#define WRAPPED(name) __wrap_##name

int WRAPPED(dladdr)(const void *address, Dl_info *ret_info);
int WRAPPED(dladdr)(const void *address, Dl_info *ret_info)
{
    int (*real)(const void *, Dl_info *) = (int (*)(const void *, Dl_info *))nxm_route_libc_function("dladdr");

    return real ? real(address, ret_info) : 0;
}

int WRAPPED(dladdr1)(const void *address, Dl_info *ret_info, void **ret_extra, int flags);
int WRAPPED(dladdr1)(const void *address, Dl_info *ret_info, void **ret_extra, int flags)
{
    int (*real)(const void *, Dl_info *, void **, int) =
        (int (*)(const void *, Dl_info *, void **, int))nxm_route_libc_function("dladdr1");

    return real ? real(address, ret_info, ret_extra, flags) : 0;
}

int WRAPPED(dlinfo)(void *handle, int request, void *ret_info);
int WRAPPED(dlinfo)(void *handle, int request, void *ret_info)
{
    int (*real)(void *, int, void *) = (int (*)(void *, int, void *))nxm_route_libc_function("dlinfo");

    return real ? real(handle, request, ret_info) : -1;
}

int WRAPPED(dlclose)(void *handle);
int WRAPPED(dlclose)(void *handle)
{
    int (*real)(void *) = (int (*)(void *))nxm_route_libc_function("dlclose");

    return real ? real(handle) : -1;
}

char *WRAPPED(dlerror)(void);
char *WRAPPED(dlerror)(void)
{
    char *(*real)(void) = (char *(*)(void))nxm_route_libc_function("dlerror");

    return real ? real() : NULL;
}

/* Before 2.33 a program called what its C library's headers made of it; the kernel's answer has the same form. */
int WRAPPED(fstat)(int fd, struct stat *ret_facts);
int WRAPPED(fstat)(int fd, struct stat *ret_facts)
{
    return (int)syscall(SYS_fstat, fd, ret_facts);
}

int WRAPPED(lstat)(const char *path, struct stat *ret_facts);
int WRAPPED(lstat)(const char *path, struct stat *ret_facts)
{
    return (int)syscall(SYS_newfstatat, AT_FDCWD, path, ret_facts, AT_SYMLINK_NOFOLLOW);
}

/* A thread's own mask, under the name that was always libc's. */
int WRAPPED(pthread_sigmask)(int how, const sigset_t *set, sigset_t *ret_before);
int WRAPPED(pthread_sigmask)(int how, const sigset_t *set, sigset_t *ret_before)
{
    return sigprocmask(how, set, ret_before) == 0 ? 0 : errno;
}
