#include "output.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#include "result.h"

#define FULL_PIPE_WAIT_MS 1000

/* What a write may raise: a pipe nobody reads, a file at RLIMIT_FSIZE. The default action of both ends the process. */
static const int write_signals[] = { SIGPIPE, SIGXFSZ };
#define WRITE_SIGNALS (sizeof write_signals / sizeof *write_signals)

/* Those signals held back around our writes. One that was pending before is the program's own and stays. */
struct signal_guard {
    sigset_t before, ours;
    bool blocked; /* `ours` are, by us */
};

static void guard_enter(struct signal_guard *guard)
{
    sigset_t pending;

    sigemptyset(&guard->ours);
    sigemptyset(&pending);
    sigpending(&pending);
    for (size_t i = 0; i < WRITE_SIGNALS; i++) {
        if (sigismember(&pending, write_signals[i]) == 0)
            sigaddset(&guard->ours, write_signals[i]);
    }
    guard->blocked = pthread_sigmask(SIG_BLOCK, &guard->ours, &guard->before) == 0;
}

static void guard_leave(const struct signal_guard *guard, bool raised)
{
    static const struct timespec now;

    if (!guard->blocked)
        return;
    while (raised && sigtimedwait(&guard->ours, NULL, &now) < 0 && errno == EINTR) {
    }
    pthread_sigmask(SIG_SETMASK, &guard->before, NULL);
}

/* A descriptor that the program made non-blocking: wait for room, but not for ever. */
static bool wait_for_room(int fd)
{
    struct pollfd room = { .fd = fd, .events = POLLOUT };

    return poll(&room, 1, FULL_PIPE_WAIT_MS) > 0 && (room.revents & POLLOUT) != 0;
}

static int write_all(int fd, const char *bytes, size_t count)
{
    while (count > 0) {
        ssize_t written = write(fd, bytes, count);

        if (written > 0) {
            bytes += written;
            count -= (size_t)written;
        } else if (written == 0) {
            return EIO;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            if (!wait_for_room(fd))
                return EAGAIN;
        } else if (errno != EINTR) {
            return errno;
        }
    }
    return 0;
}

int nxm_output_write(int fd, const char *bytes, size_t count)
{
    int saved = errno, error;
    struct signal_guard guard;

    guard_enter(&guard);
    error = write_all(fd, bytes, count);
    guard_leave(&guard, error == EPIPE || error == EFBIG);
    errno = saved;
    return error == 0 ? NXM_OK : NXM_EINVAL;
}
