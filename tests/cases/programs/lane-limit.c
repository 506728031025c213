/* Memory that is freed behind work which has not run yet, eight megabytes a round, and synchronous calls in between: by what the
 * argument names. Work of a round is let go while such a call is under way, so that one which waits for it goes on.
 *   allocate, free, wait   what is called in between
 *   capture                   the same while a capture is open: nothing may wait, for nobody lets go
 *   endless                   work that never runs: whoever waits for it stops at some time */
#include "case.h"

#include <stdatomic.h>

enum { MIB = 1 << 20, ROUNDS = 4, BLOCKS = 8 };

static CUstream streams[ROUNDS], other;
static CUdeviceptr small[ROUNDS];
static int done;
static _Atomic int going_in, let_go;

static void *let_work_go(void *unused)
{
    for (int round = 0; round < ROUNDS; round++) {
        while (going_in <= round)
            usleep(1000);
        usleep(30000); /* who does not wait is far away by now */
        sim_release(streams[round]);
        let_go++;
    }
    return unused;
}

static void free_behind_work(CUstream stream)
{
    CUdeviceptr blocks[BLOCKS];

    for (int i = 0; i < BLOCKS; i++)
        SHOW(cuMemAllocAsync(&blocks[i], MIB, stream));
    sim_hold(stream);
    for (int i = 0; i < BLOCKS; i++) {
        SHOW(cuMemsetD8Async(blocks[i], 1, MIB, stream));
        SHOW(cuMemFreeAsync(blocks[i], stream));
    }
}

static void call_in_between(const char *how)
{
    CUdeviceptr fresh = 0;

    if (strcmp(how, "wait") == 0)
        SHOW(cuStreamSynchronize(other));
    else if (strcmp(how, "free") == 0)
        SHOW(cuMemFree(small[done++]));
    else
        SHOW(cuMemAlloc(&fresh, 4096));
}

static void in_rounds(const char *how)
{
    pthread_t thread;

    pthread_create(&thread, NULL, let_work_go, NULL);
    for (int round = 0; round < ROUNDS; round++) {
        free_behind_work(streams[round]);
        going_in++;
        call_in_between(how);
    }
    pthread_join(thread, NULL);
    SHOW(cuCtxSynchronize());
}

static void in_capture(void)
{
    CUgraph graph = NULL;

    SHOW(cuStreamBeginCapture(other, CU_STREAM_CAPTURE_MODE_RELAXED));
    free_behind_work(streams[0]);
    call_in_between("allocate");
    call_in_between("allocate");
    sim_release(streams[0]);
    SHOW(cuStreamEndCapture(other, &graph));
    SHOW(cuGraphDestroy(graph));
    SHOW(cuCtxSynchronize());
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "allocate";

    begin_case();
    for (int round = 0; round < ROUNDS; round++) {
        SHOW(cuStreamCreate(&streams[round], CU_STREAM_NON_BLOCKING));
        SHOW(cuMemAlloc(&small[round], 4096));
    }
    SHOW(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    if (strcmp(how, "capture") == 0) {
        in_capture();
    } else if (strcmp(how, "endless") == 0) {
        free_behind_work(streams[0]);
        call_in_between("allocate");
        call_in_between("allocate");
    } else {
        in_rounds(how);
    }
    FACT(sim_violations());
    return 0;
}
