/* Forks while another thread is in the middle of a call, as the argument says: with a lock of the shim in its hands (stopping_lock.c,
 * where it is preloaded), or inside the driver. The child calls what it likes, and comes back from all of it. With a second argument
 * memory was allocated before, so that the shim has begun.
 *
 *   fork-in-lock retain|capture|release|allocate [begun] */
#include "transcript.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/sim/simcuda.h"

CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device);

static CUcontext context;
static CUstream stream;
static CUdeviceptr memory;
static const char *way;
static _Atomic int done;
static void (*stop_in_next_lock)(void);
static int (*is_stopped)(void);
static void (*let_lock_go)(void);

static int is(const char *name)
{
    return strcmp(way, name) == 0;
}

static void *call(void *unused)
{
    CUcontext retained;
    CUdeviceptr p = 0;

    cuCtxSetCurrent(context);
    if (stop_in_next_lock && !is("release"))
        stop_in_next_lock();
    if (is("retain"))
        cuDevicePrimaryCtxRetain(&retained, 0);
    if (is("capture"))
        cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    if (is("allocate"))
        cuMemAlloc(&p, 100);
    if (is("release")) /* waits for its context's work, which is held */
        cuDevicePrimaryCtxRelease(0);
    done = 1;
    return unused;
}

/* What CUDA says here is the driver's business. */
static void be_child(void)
{
    CUcontext primary = NULL;
    CUgraph graph = NULL;
    CUdeviceptr p = 0;

    alarm(200);
    cuDevicePrimaryCtxRetain(&primary, 0);
    cuDevicePrimaryCtxRelease(0);
    cuDevicePrimaryCtxReset(0);
    cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    cuStreamEndCapture(stream, &graph);
    cuMemAlloc(&p, 100);
    cuMemFree(memory);
    cuStreamSynchronize(stream);
    cuStreamDestroy(stream);
    cuCtxDestroy(context);
    exit(7);
}

static void do_nothing(void *unused)
{
    (void)unused;
}

static void prepare(int begun)
{
    if (is("release")) {
        context = begin();
    } else {
        cuInit(0);
        SHOW(cuCtxCreate_v2(&context, 0, 0)); /* nobody has asked for a primary one */
    }
    SHOW(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    if (begun)
        SHOW(cuMemAlloc(&memory, 4096));
    if (is("release")) {
        sim_hold(stream);
        SHOW(cuLaunchHostFunc(stream, do_nothing, NULL));
    }
}

static void look_up(const char *name, void *ret_function)
{
    void *symbol = dlsym(RTLD_DEFAULT, name);

    memcpy(ret_function, &symbol, sizeof symbol);
}

int main(int argc, char **argv)
{
    pthread_t thread;
    int status = -1;

    way = argc > 1 ? argv[1] : "retain";
    look_up("stop_in_next_lock", &stop_in_next_lock);
    look_up("is_stopped", &is_stopped);
    look_up("let_lock_go", &let_lock_go);
    prepare(argc > 2);
    fflush(stdout);
    pthread_create(&thread, NULL, call, NULL);
    if (is("release"))
        usleep(50000); /* it is in the driver by now */
    while (!done && !(is_stopped && is_stopped()) && !is("release"))
        usleep(1000);
    if (getenv("FORK_SEEN") && is_stopped && is_stopped())
        fclose(fopen(getenv("FORK_SEEN"), "w"));
    FACT(is("release") && done); /* it is not out of the driver again */
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        be_child();
    waitpid(child, &status, 0);
    FACT(WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
    if (let_lock_go)
        let_lock_go();
    sim_release(stream);
    pthread_join(thread, NULL);
    return 0;
}
