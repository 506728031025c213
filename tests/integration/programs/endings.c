/* Ends, or forks, in the middle of things, in the way named by its argument. What it prints is decided by the driver alone. */
#include "transcript.h"

#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/sim/simcuda.h"

enum { THREADS = 8, CHILDREN = 12 };

extern char **environ;

static CUcontext context;
static CUstream stream;
static CUdeviceptr early, late;
static _Atomic int ready, stop, leave_with, wrong;
static pthread_barrier_t start;

/* --- threads that allocate and free until the process ends ------------------------------------------------------------- */

static void *work(void *argument)
{
    CUdeviceptr a = 0, b = 0;
    int first = argument == NULL;

    cuCtxSetCurrent(context);
    pthread_barrier_wait(&start);
    for (int i = 0; !stop; i++) {
        wrong += cuMemAlloc(&a, 3000) != CUDA_SUCCESS;
        wrong += cuMemAllocAsync(&b, 3000, NULL) != CUDA_SUCCESS;
        wrong += cuMemFreeAsync(b, NULL) != CUDA_SUCCESS;
        wrong += cuMemFree(a) != CUDA_SUCCESS;
        if (i == 20)
            ready++;
        if (i > 20 && first && leave_with)
            exit(leave_with);
    }
    return NULL;
}

static pthread_t workers[THREADS];

static void start_workers(int wait)
{
    pthread_barrier_init(&start, NULL, THREADS + 1);
    for (intptr_t i = 0; i < THREADS; i++)
        pthread_create(&workers[i], NULL, work, (void *)i);
    pthread_barrier_wait(&start);
    while (wait && ready < THREADS)
        usleep(1000);
}

static void stop_workers(void)
{
    stop = 1;
    for (int i = 0; i < THREADS; i++)
        pthread_join(workers[i], NULL);
    FACT(wrong);
}

/* --- children ------------------------------------------------------------------------------------------------------------ */

/* What CUDA says in a child is the driver's business, and fast. */
static int in_child(int how)
{
    CUdeviceptr fresh = 0;
    CUgraph graph = NULL;
    int failed = 0;

    failed += cuMemAlloc(&fresh, 100) != CUDA_SUCCESS;
    failed += cuMemFree(early) != CUDA_SUCCESS;
    failed += cuMemAllocAsync(&fresh, 100, stream) != CUDA_SUCCESS;
    failed += cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) != CUDA_SUCCESS;
    failed += cuStreamEndCapture(stream, &graph) != CUDA_SUCCESS;
    failed += cuStreamSynchronize(stream) != CUDA_SUCCESS;
    failed += cuMemFreeAsync(late, stream) != CUDA_SUCCESS;
    failed += cuStreamDestroy(stream) != CUDA_SUCCESS;
    failed += cuCtxDestroy(context) != CUDA_SUCCESS;
    if (how % 4 == 1)
        _exit(10 + failed);
    if (how % 4 == 2)
        execl("/bin/sh", "sh", "-c", "exit 3", (char *)NULL);
    if (how % 4 == 3) {
        pid_t grandchild = fork();
        int status = -1;
        if (grandchild == 0)
            exit(cuMemFree(early) == CUDA_SUCCESS);
        waitpid(grandchild, &status, 0);
        exit(WIFEXITED(status) ? 20 + WEXITSTATUS(status) : 99);
    }
    exit(10 + failed);
}

static void fork_many(void)
{
    pid_t children[CHILDREN];

    fflush(stdout);
    for (int i = 0; i < CHILDREN; i++) {
        children[i] = fork();
        if (children[i] == 0)
            in_child(i);
        usleep(500);
    }
    for (int i = 0; i < CHILDREN; i++) {
        int status = -1;
        waitpid(children[i], &status, 0);
        FACT(status);
    }
}

static void spawn(void)
{
    char *arguments[] = { "sh", "-c", "exit 4", NULL };
    pid_t child = 0;
    int status = -1;

    FACT(posix_spawn(&child, "/bin/sh", NULL, NULL, arguments, environ));
    waitpid(child, &status, 0);
    FACT(status);
}

/* --- ways out -------------------------------------------------------------------------------------------------------------- */

static void on_alarm(int signal)
{
    (void)signal;
    _exit(6);
}

static void leave_by_signal(void)
{
    struct itimerval soon = { .it_value = { .tv_usec = 3000 + 100 * (getpid() % 20) } };

    signal(SIGALRM, on_alarm);
    setitimer(ITIMER_REAL, &soon, NULL);
    for (;;) {
        CUdeviceptr a = 0, b = 0;
        cuMemAlloc(&a, 3000);
        cuMemAllocAsync(&b, 3000, stream);
        cuMemFreeAsync(b, stream);
        cuMemFree(a);
    }
}

static void *free_blocked(void *unused)
{
    ready = 1;
    cuMemFree(early); /* behind work that never runs */
    return unused;
}

static void leave_while_one_waits(void)
{
    pthread_t thread;

    SHOW(cuMemsetD8Async(early, 1, 100, stream));
    sim_hold(stream);
    SHOW(cuMemsetD8Async(early, 1, 100, stream));
    pthread_create(&thread, NULL, free_blocked, NULL);
    while (!ready)
        usleep(1000);
    usleep(20000);
}

/* Everything that a library may do in its own exit handlers. */
static void tidy(void)
{
    CUdeviceptr fresh = 0, ordered = 0;

    cuCtxSetCurrent(context);
    SHOW(cuMemFree(late));
    SHOW(cuMemFree(late));
    SHOW(cuMemAlloc(&fresh, 5000));
    SHOW(cuMemFree(fresh));
    SHOW(cuMemAllocAsync(&ordered, 5000, stream));
    SHOW(cuMemFreeAsync(ordered, stream));
    SHOW(cuStreamSynchronize(stream));
    SHOW(cuStreamDestroy(stream));
    SHOW(cuDevicePrimaryCtxReset(0));
    SHOW(cuMemFree(early));
    SHOW(cuDevicePrimaryCtxRelease(0));
}

static pthread_key_t key;

static void free_at_thread_exit(void *unused)
{
    (void)unused;
    SHOW(cuMemFree(late)); /* by a thread without a context */
}

static void *end_thread(void *unused)
{
    pthread_setspecific(key, &key);
    return unused;
}

static void end_a_thread(void)
{
    pthread_t thread;

    pthread_key_create(&key, free_at_thread_exit);
    pthread_create(&thread, NULL, end_thread, NULL);
    pthread_join(thread, NULL);
}

static void reset_under_threads(void)
{
    start_workers(1);
    for (int i = 0; i < 10; i++) {
        cuDevicePrimaryCtxReset(0);
        cuDevicePrimaryCtxRetain(&context, 0);
        usleep(1000);
    }
    stop = 1;
    for (int i = 0; i < THREADS; i++) /* what failed in between is a matter of luck */
        pthread_join(workers[i], NULL);
    SHOW(cuMemAlloc(&early, 100));
}

static int is(const char *way, const char *name)
{
    return strcmp(way, name) == 0;
}

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "return";

    if (is(way, "early-tidy"))
        atexit(tidy);
    context = begin();
    if (is(way, "first-use-fork")) {
        start_workers(0);
        fork_many();
        stop_workers();
        return 0;
    }
    SHOW(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    SHOW(cuMemAlloc(&early, 100));
    SHOW(cuMemAlloc(&late, 5000));
    if (is(way, "late-tidy"))
        atexit(tidy);
    if (is(way, "quick-tidy")) {
        at_quick_exit(tidy);
        quick_exit(2);
    }
    if (is(way, "deinitialised") || is(way, "deinitialised-free"))
        sim_deinitialise();
    if (is(way, "deinitialised-free"))
        SHOW(cuMemFree(late));
    if (is(way, "signal"))
        leave_by_signal();
    if (is(way, "blocked"))
        leave_while_one_waits();
    if (is(way, "thread-exit"))
        end_a_thread();
    if (is(way, "reset"))
        reset_under_threads();
    if (is(way, "spawn"))
        spawn();
    if (strncmp(way, "threads", 7) == 0) {
        start_workers(1);
        if (is(way, "threads-fork")) {
            fork_many();
            stop_workers();
        }
        if (is(way, "threads-exit"))
            exit(3);
        if (is(way, "threads-_exit"))
            _exit(4);
        if (is(way, "threads-quick"))
            quick_exit(5);
        if (is(way, "threads-main-ends"))
            leave_with = 9;
        if (is(way, "threads-main-ends"))
            pthread_exit(NULL);
    }
    return 0;
}
