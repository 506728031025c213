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

/* SIGPIPE held back around our writes. One that was pending before is the program's own and stays. */
struct pipe_guard {
    sigset_t before;
    bool blocked; /* by us */
};

static void guard_enter(struct pipe_guard *guard)
{
    sigset_t pipe_only, pending;

    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    sigemptyset(&pending);
    sigpending(&pending);
    guard->blocked = sigismember(&pending, SIGPIPE) == 0 && pthread_sigmask(SIG_BLOCK, &pipe_only, &guard->before) == 0;
}

static void guard_leave(const struct pipe_guard *guard, bool raised)
{
    static const struct timespec now;
    sigset_t pipe_only;

    if (!guard->blocked)
        return;
    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    while (raised && sigtimedwait(&pipe_only, NULL, &now) < 0 && errno == EINTR) {
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
    struct pipe_guard guard;

    guard_enter(&guard);
    error = write_all(fd, bytes, count);
    guard_leave(&guard, error == EPIPE);
    errno = saved;
    return error == 0 ? NXM_OK : NXM_EINVAL;
}
