#include "nap.h"

#include <errno.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void nxm_nap(long nanoseconds)
{
    struct timespec pause = { .tv_nsec = nanoseconds };
    int before = errno;

    syscall(SYS_nanosleep, &pause, NULL); /* the C library's function of that name is a cancellation point */
    errno = before;
}
