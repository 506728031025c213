/* Eight threads make the process's first allocation at once, then allocate and free each other's blocks. */
#include "transcript.h"

#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 8, ROUNDS = 300 };

static CUcontext context;
static pthread_barrier_t start;
static _Atomic CUdeviceptr mailbox[THREADS];
static _Atomic int failures;

static void *work(void *argument)
{
    int me = (int)(intptr_t)argument;

    if (me % 2 == 0 && cuCtxSetCurrent(context))
        failures++;
    pthread_barrier_wait(&start);
    if (me % 2) /* first call on a thread without a context: an error, here as natively */
        failures += cuMemAlloc(&(CUdeviceptr){ 0 }, 16) != CUDA_ERROR_INVALID_CONTEXT;
    if (me % 2 && cuCtxSetCurrent(context))
        failures++;
    for (int i = 0; i < ROUNDS; i++) {
        CUdeviceptr mine = 0, other;
        if (cuMemAlloc(&mine, (size_t)(1 + i * 13 % 4000)))
            failures++;
        other = atomic_exchange(&mailbox[(me + i) % THREADS], mine);
        if (other && cuMemFree(other))
            failures++;
    }
    return NULL;
}

int main(void)
{
    pthread_t thread[THREADS];

    context = begin();
    pthread_barrier_init(&start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, work, (void *)(intptr_t)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < THREADS; i++)
        if (mailbox[i] && cuMemFree(mailbox[i]))
            failures++;
    FACT(failures);
    return failures != 0;
}
