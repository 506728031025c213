/* A process that runs one other and leaves nothing of it behind. What a plugin starts may leave its group and its session, and
 * lose its parent: all of that comes to the keeper, which is its subreaper, and ends it. It does so too when this
 * process is ended, in whatever way. One thread. */
#ifndef NXMEM_CHECK_KEEPER_H
#define NXMEM_CHECK_KEEPER_H

#include <stdbool.h>

struct end {
    bool in_time;
    int status; /* as waitpid has it; of one that was not in time: of no meaning */
};

/* Runs `body` in a process of its own, with both arguments (`page` is memory that processes share), and comes back when it
 * and everything that it started are gone. `body` does not return. */
struct end keeper_run(void (*body)(const void *argument, void *page), const void *argument, void *page, unsigned seconds);

#endif
