/* What the programs of cases share: a transcript, the simulated driver's controls, and an end for what would hang. */
#ifndef CASE_H
#define CASE_H

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <unistd.h>

#include "tests/integration/programs/transcript.h"
#include "tests/sim/simcuda.h"

/* A call that never returns ends the program by SIGALRM, which no native run does. */
static inline CUcontext begin_case(void)
{
    alarm(200);
    return begin();
}

static inline void show_runtime_(const char *what, cudaError_t result)
{
    printf("%s -> %d\n", what, (int)result);
    fflush(stdout);
}
#define SHOW_RT(call) show_runtime_(#call, (call))

/* Runs `work` on a thread of its own and waits for it. */
static inline void on_another_thread(void *(*work)(void *argument), void *argument)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, work, argument) != 0)
        exit(98);
    pthread_join(thread, NULL);
}

#endif
