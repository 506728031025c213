#include "output.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "result.h"

#define FULL_PIPE_WAIT_MS 1000

/* What a write may raise: a pipe nobody reads, a file at RLIMIT_FSIZE. The default action of both ends the process. */
static const int write_signals[] = { SIGPIPE, SIGXFSZ };
#define WRITE_SIGNALS (sizeof write_signals / sizeof *write_signals)

/* Those signals held back around our writes. One that was pending before is the program's own and stays. */
static void guard_enter(struct nxm_output *output)
{
    sigset_t pending;

    sigemptyset(&output->ours);
    sigemptyset(&pending);
    sigpending(&pending);
    for (size_t i = 0; i < WRITE_SIGNALS; i++) {
        if (sigismember(&pending, write_signals[i]) == 0)
            sigaddset(&output->ours, write_signals[i]);
    }
    output->blocked = pthread_sigmask(SIG_BLOCK, &output->ours, &output->before) == 0;
}

static void guard_leave(const struct nxm_output *output, bool raised)
{
    static const struct timespec now;

    if (!output->blocked)
        return;
    while (raised && sigtimedwait(&output->ours, NULL, &now) < 0 && errno == EINTR) {
    }
    pthread_sigmask(SIG_SETMASK, &output->before, NULL);
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

void nxm_output_init(struct nxm_output *output, int fd)
{
    output->fd = fd;
    output->error = 0;
    output->saved = errno;
    guard_enter(output);
}

void nxm_output_put(struct nxm_output *output, const char *bytes, size_t count)
{
    if (output->error == 0)
        output->error = write_all(output->fd, bytes, count);
}

int nxm_output_clear(struct nxm_output *output)
{
    guard_leave(output, output->error == EPIPE || output->error == EFBIG);
    errno = output->saved;
    return output->error == 0 ? NXM_OK : NXM_EINVAL;
}

int nxm_output_write(int fd, const char *bytes, size_t count)
{
    struct nxm_output output;

    nxm_output_init(&output, fd);
    nxm_output_put(&output, bytes, count);
    return nxm_output_clear(&output);
}
