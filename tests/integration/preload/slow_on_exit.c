/* Preloaded: a thread that registers a function for exit takes its time over it, and whoever forks meanwhile can see so. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <stdatomic.h>
#include <unistd.h>

#define SHOWN __attribute__((visibility("default")))

static _Atomic int registering;

SHOWN int is_registering(void)
{
    return registering;
}

SHOWN int on_exit(void (*function)(int, void *), void *argument)
{
    int (*real_on_exit)(void (*)(int, void *), void *);

    *(void **)&real_on_exit = dlsym(RTLD_NEXT, "on_exit");
    registering = 1;
    usleep(200 * 1000);
    int result = real_on_exit(function, argument);
    registering = 0;
    return result;
}
