/* B16: main leaves by pthread_exit, and what ends the process is its last thread. Threads free in the destructors of what they keep for
 * themselves, and leave memory of their own default streams. */
#include "case.h"

static pthread_key_t kept;
static CUcontext context;

static void free_kept(void *block)
{
    SHOW(cuMemFree((CUdeviceptr)(uintptr_t)block));
}

static void *work(void *unused)
{
    CUdeviceptr p = 0, ordered = 0;

    SHOW(cuCtxSetCurrent(context));
    SHOW(cuMemAlloc(&p, 1000));
    pthread_setspecific(kept, (void *)(uintptr_t)p);
    SHOW(cuMemAllocAsync(&ordered, 2000, CU_STREAM_PER_THREAD));
    SHOW(cuMemFreeAsync(ordered, CU_STREAM_PER_THREAD));
    return unused;
}

NAMED(void *leaks_after_main(void *main_thread))
{
    CUdeviceptr p = 0;

    pthread_join(*(pthread_t *)main_thread, NULL);
    SHOW(cuCtxSetCurrent(context));
    SHOW(cuMemAlloc(&p, 3000));
    return NULL;
}

static void at_the_end(void)
{
    CUdeviceptr p = 0;

    SHOW(cuMemAlloc(&p, 500));
    SHOW(cuMemFree(p));
}

int main(void)
{
    static pthread_t self;
    pthread_t thread;

    context = begin_case();
    self = pthread_self();
    atexit(at_the_end);
    if (pthread_key_create(&kept, free_kept) != 0)
        return 98;
    for (int i = 0; i < 4; i++)
        on_another_thread(work, NULL);
    if (pthread_create(&thread, NULL, leaks_after_main, &self) != 0)
        return 98;
    pthread_exit(NULL);
}
