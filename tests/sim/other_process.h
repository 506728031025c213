/* Another process for a test: the same program, started again with a role; the two talk through a socket, one message each way at a
 * time. Each program has a table of roles of its own. */
#ifndef OTHER_PROCESS_H
#define OTHER_PROCESS_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver_fixture.h"

enum { BYTES = 3000, PIPE = 9 };

struct message {
    CUipcMemHandle memory;
    CUipcEventHandle event;
    CUmemPoolPtrExportData pointer;
    int pid, fd; /* a descriptor of the sender's */
};

/* In a role: which ends with 0, or with 1 when something was not so. */
#define CHECK(condition)                                                                   \
    do {                                                                                   \
        if (!(condition)) {                                                                \
            fprintf(stderr, "the other process: line %d: %s\n", __LINE__, #condition);     \
            return 1;                                                                      \
        }                                                                                  \
    } while (0)

struct role {
    const char *name;
    int (*play)(void);
};

#define ROLE(name) { #name, name }

static inline struct message receive(int fd)
{
    struct message m = { .pid = 0 };
    if (read(fd, &m, sizeof m) != (ssize_t)sizeof m) _exit(95);
    return m;
}

static inline void tell(int fd, const struct message *m)
{
    if (write(fd, m, sizeof *m) != (ssize_t)sizeof *m) _exit(94);
}

static inline int is_filled(CUdeviceptr p, unsigned char with)
{
    unsigned char seen[BYTES];
    if (cuMemcpyDtoH(seen, p, BYTES) != CUDA_SUCCESS) return 0;
    for (int i = 0; i < BYTES; i++)
        if (seen[i] != with) return 0;
    return 1;
}

static inline int play(const struct role *roles, size_t count, const char *name)
{
    CUcontext c;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&c, 0) || cuCtxSetCurrent(c)) return 93;
    for (size_t i = 0; i < count; i++)
        if (strcmp(roles[i].name, name) == 0) return roles[i].play();
    return 92;
}

struct other {
    pid_t pid;
    int fd;
};

static inline struct other start(const char *role)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], PIPE);
        execl("/proc/self/exe", "other", role, (char *)NULL);
        _exit(91);
    }
    assert_true(pid > 0);
    close(ends[1]);
    return (struct other){ pid, ends[0] };
}

static inline void assert_ends_well(struct other o)
{
    int status = 0;
    close(o.fd);
    assert_int_equal(waitpid(o.pid, &status, 0), o.pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

#endif
