/* Preloaded behind the shim: a thread that asked for it stops where it has taken the next lock of the shim, until it is let go. */
#include "inside_shim.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

static int (*real_lock)(pthread_mutex_t *);
static _Thread_local int stops;
static _Atomic int stopped, let_go;

__attribute__((constructor)) static void begin(void)
{
    *(void **)&real_lock = dlsym(RTLD_NEXT, "pthread_mutex_lock");
    dl_iterate_phdr(look_for_shim, NULL);
}

SHOWN void stop_in_next_lock(void)
{
    stops = 1;
}

SHOWN int is_stopped(void)
{
    return stopped;
}

SHOWN void let_lock_go(void)
{
    let_go = 1;
}

SHOWN int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    int result;

    if (!real_lock)
        begin();
    result = real_lock(mutex);
    if (!stops || !is_inside_shim(__builtin_return_address(0)))
        return result;
    stops = 0;
    stopped = 1;
    while (!let_go)
        usleep(1000);
    return result;
}
