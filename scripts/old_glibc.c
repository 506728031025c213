/* The tools' share of running on machines with glibc 2.17, wherever they were built: what glibc 2.34 took into libc, or gave a new name
 * there, as the linker's --wrap=NAME lets us have it under the name of before. They need libdl and libpthread by name for that, which
 * newer glibc still has, empty. Owns nothing; any thread.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef __x86_64__
#define FIRST "GLIBC_2.2.5"
#else
#define FIRST "GLIBC_2.17"
#endif

/* NAME, as it was from the first version on, is old_NAME; what calls it comes through here. */
#define OLD(type, name, parameters, arguments)                 \
    extern type old_##name parameters;                         \
    __asm__(".symver old_" #name ", " #name "@" FIRST);        \
    type __wrap_##name parameters;                             \
    type __wrap_##name parameters { return old_##name arguments; }

OLD(void *, dlopen, (const char *file, int mode), (file, mode))
OLD(void *, dlsym, (void *handle, const char *symbol), (handle, symbol))
OLD(int, dlclose, (void *handle), (handle))
OLD(char *, dlerror, (void), ())
OLD(int, pthread_create, (pthread_t *ret_thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument),
    (ret_thread, attributes, start, argument))
OLD(int, pthread_join, (pthread_t thread, void **ret_result), (thread, ret_result))
OLD(int, pthread_barrier_init, (pthread_barrier_t *barrier, const pthread_barrierattr_t *attributes, unsigned count),
    (barrier, attributes, count))
OLD(int, pthread_barrier_wait, (pthread_barrier_t *barrier), (barrier))

/* Of glibc 2.3.3, which is the first on some machines and not on others. */
int __wrap_dlinfo(void *handle, int request, void *ret_info);
int __wrap_dlinfo(void *handle, int request, void *ret_info)
{
    int (*real)(void *, int, void *) = (int (*)(void *, int, void *))old_dlsym(RTLD_DEFAULT, "dlinfo");

    return real ? real(handle, request, ret_info) : -1;
}

int __wrap_dladdr(const void *address, Dl_info *ret_info);
int __wrap_dladdr(const void *address, Dl_info *ret_info)
{
    int (*real)(const void *, Dl_info *) = (int (*)(const void *, Dl_info *))old_dlsym(RTLD_DEFAULT, "dladdr");

    return real ? real(address, ret_info) : 0;
}

int __wrap_dladdr1(const void *address, Dl_info *ret_info, void **ret_extra, int flags);
int __wrap_dladdr1(const void *address, Dl_info *ret_info, void **ret_extra, int flags)
{
    int (*real)(const void *, Dl_info *, void **, int) =
        (int (*)(const void *, Dl_info *, void **, int))old_dlsym(RTLD_DEFAULT, "dladdr1");

    return real ? real(address, ret_info, ret_extra, flags) : 0;
}

int __wrap_fstat(int fd, struct stat *ret_facts);
int __wrap_fstat(int fd, struct stat *ret_facts)
{
    return (int)syscall(SYS_fstat, fd, ret_facts);
}

int __wrap_stat(const char *path, struct stat *ret_facts);
int __wrap_stat(const char *path, struct stat *ret_facts)
{
    return (int)syscall(SYS_newfstatat, AT_FDCWD, path, ret_facts, 0);
}

int __wrap_lstat(const char *path, struct stat *ret_facts);
int __wrap_lstat(const char *path, struct stat *ret_facts)
{
    return (int)syscall(SYS_newfstatat, AT_FDCWD, path, ret_facts, AT_SYMLINK_NOFOLLOW);
}

int __wrap_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags)
{
    return (int)syscall(SYS_memfd_create, name, flags);
}

pid_t __wrap_gettid(void);
pid_t __wrap_gettid(void)
{
    return (pid_t)syscall(SYS_gettid);
}

int __wrap_pthread_sigmask(int how, const sigset_t *set, sigset_t *ret_before);
int __wrap_pthread_sigmask(int how, const sigset_t *set, sigset_t *ret_before)
{
    return sigprocmask(how, set, ret_before) == 0 ? 0 : errno;
}

/* What the start of a program calls since 2.34 runs its constructors as well; the one before leaves that to `init`. */
extern int old_start(int (*main_)(int, char **, char **), int argc, char **argv, void (*init)(int, char **, char **), void (*fini)(void),
                     void (*loader_fini)(void), void *stack_end);
__asm__(".symver old_start, __libc_start_main@" FIRST);
extern void (*__init_array_start[])(int, char **, char **) __attribute__((visibility("hidden")));
extern void (*__init_array_end[])(int, char **, char **) __attribute__((visibility("hidden")));

static void run_constructors(int argc, char **argv, char **environment)
{
    for (void (**constructor)(int, char **, char **) = __init_array_start; constructor < __init_array_end; constructor++)
        (*constructor)(argc, argv, environment);
}

int __wrap___libc_start_main(int (*main_)(int, char **, char **), int argc, char **argv, void (*init)(int, char **, char **),
                             void (*fini)(void), void (*loader_fini)(void), void *stack_end);
int __wrap___libc_start_main(int (*main_)(int, char **, char **), int argc, char **argv, void (*init)(int, char **, char **),
                             void (*fini)(void), void (*loader_fini)(void), void *stack_end)
{
    return old_start(main_, argc, argv, init ? init : run_constructors, fini, loader_fini, stack_end);
}
