/* Scenarios for torture.c: a program that takes one failure as it comes, and gives everything back that it got. Every call goes
 * through ask(): success, or once the code that is expected to fail. */
#ifndef TORTURE_H
#define TORTURE_H

#include "transcript.h"

#include <pthread.h>
#include <unistd.h>

enum { UNEXPECTED = 77 };

static int expected; /* the code that some call may answer, once */
static _Atomic int failures;

static int ask(CUresult result, const char *call)
{
    if (result == CUDA_SUCCESS)
        return 1;
    if ((int)result == expected && failures++ == 0)
        return 0;
    printf("%s answers %d\n", call, (int)result);
    fflush(stdout);
    _exit(UNEXPECTED);
}
#define ASK(call) ask((call), #call)
#define INSIST(call) ({ int did_ = ASK(call); if (!did_) did_ = ASK(call); did_; }) /* what fails once is done again */

static CUcontext primary;

static int begin_scenario(void)
{
    CUdevice device = 0;

    return INSIST(cuInit(0)) && INSIST(cuDeviceGet(&device, 0)) && INSIST(cuDevicePrimaryCtxRetain(&primary, device)) &&
           INSIST(cuCtxSetCurrent(primary));
}

static void end_scenario(void)
{
    INSIST(cuCtxSynchronize());
    INSIST(cuCtxSynchronize()); /* what could not be given back in the first is in the second */
}

/* --- memory of both kinds, on two streams and none ------------------------------------------------------------------ */

static void use_memory(CUstream a, CUstream b)
{
    CUdeviceptr sync[2] = { 0 }, ordered[3] = { 0 };

    for (int i = 0; i < 2; i++)
        if (!ASK(cuMemAlloc(&sync[i], 1000 + (size_t)i)))
            sync[i] = 0;
    for (int i = 0; i < 3; i++) {
        if (!ASK(cuMemAllocAsync(&ordered[i], 5000, i % 2 ? a : b)))
            ordered[i] = 0;
        if (ordered[i])
            ASK(cuMemsetD8Async(ordered[i], 1, 5000, i % 2 ? a : b));
    }
    for (int i = 0; i < 2; i++)
        if (ordered[i])
            INSIST(cuMemFreeAsync(ordered[i], i % 2 ? a : b));
    INSIST(cuStreamSynchronize(a));
    INSIST(cuStreamSynchronize(b));
    if (ordered[2])
        INSIST(cuMemFree(ordered[2]));
    for (int i = 0; i < 2; i++)
        if (sync[i])
            INSIST(i ? cuMemFree(sync[i]) : cuMemFreeAsync(sync[i], a));
}

static void scenario_streams(void)
{
    CUstream a = NULL, b = NULL;

    if (!begin_scenario() || !INSIST(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING)) ||
        !INSIST(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING)))
        return;
    use_memory(a, b);
    INSIST(cuStreamDestroy(a));
    use_memory(b, NULL);
    INSIST(cuStreamDestroy(b));
    end_scenario();
}

/* --- frees while something captures -------------------------------------------------------------------------------- */

static void scenario_capture(void)
{
    CUstream stream = NULL, other = NULL;
    CUdeviceptr sync = 0, ordered = 0, node = 0;
    CUgraph graph = NULL;

    if (!begin_scenario() || !INSIST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING)) ||
        !INSIST(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING)))
        return;
    if (!ASK(cuMemAlloc(&sync, 4096)))
        sync = 0;
    if (!ASK(cuMemAllocAsync(&ordered, 4096, other)))
        ordered = 0;
    int open = ASK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    if (open && ASK(cuMemAllocAsync(&node, 4096, stream)))
        INSIST(cuMemFreeAsync(node, stream));
    if (sync)
        INSIST(cuMemFree(sync));
    if (ordered)
        INSIST(cuMemFreeAsync(ordered, other));
    if (ASK(cuMemAllocAsync(&ordered, 4096, other)))
        INSIST(cuMemFreeAsync(ordered, other));
    if (open && INSIST(cuStreamEndCapture(stream, &graph)))
        INSIST(cuGraphDestroy(graph));
    INSIST(cuStreamDestroy(stream));
    INSIST(cuStreamDestroy(other));
    end_scenario();
}

/* --- contexts that end with memory in them ------------------------------------------------------------------------- */

CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device);

static void scenario_contexts(void)
{
    CUcontext context = NULL;
    CUdeviceptr left_live = 0, freed = 0, ordered = 0;
    CUstream stream = NULL;

    if (!begin_scenario())
        return;
    if (INSIST(cuCtxCreate_v2(&context, 0, 0))) {
        ASK(cuMemAlloc(&left_live, 7000));
        if (ASK(cuMemAlloc(&freed, 3000)))
            INSIST(cuMemFree(freed));
        if (INSIST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING)) && ASK(cuMemAllocAsync(&ordered, 2000, stream)))
            INSIST(cuMemFreeAsync(ordered, stream));
        INSIST(cuCtxDestroy(context));
        INSIST(cuCtxSetCurrent(primary));
    }
    ASK(cuMemAlloc(&left_live, 9000));
    INSIST(cuDevicePrimaryCtxReset(0));
    if (INSIST(cuDevicePrimaryCtxRetain(&primary, 0)) && INSIST(cuCtxSetCurrent(primary)) && ASK(cuMemAlloc(&freed, 3000)))
        INSIST(cuMemFree(freed));
    end_scenario();
}

/* --- questions ------------------------------------------------------------------------------------------------------- */

static void scenario_questions(void)
{
    CUdeviceptr sync = 0, base = 0;
    CUmemoryPool pool = NULL;
    size_t bytes = 0, total = 0;
    unsigned type = 0;
    cuuint64_t used = 0;
    CUpointer_attribute kinds[2] = { CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_RANGE_SIZE };
    void *answers[2] = { &type, &bytes };

    if (!begin_scenario())
        return;
    INSIST(cuMemGetInfo(&bytes, &total));
    if (ASK(cuMemAlloc(&sync, 4000))) {
        INSIST(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, sync + 1));
        INSIST(cuPointerGetAttributes(2, kinds, answers, sync + 1));
        INSIST(cuMemGetAddressRange(&base, &bytes, sync + 1));
        INSIST(cuMemGetInfo(&bytes, &total));
        INSIST(cuMemFree(sync));
    }
    if (INSIST(cuDeviceGetDefaultMemPool(&pool, 0))) {
        if (ASK(cuMemAllocFromPoolAsync(&sync, 4000, pool, NULL)))
            INSIST(cuMemFreeAsync(sync, NULL));
        INSIST(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
        INSIST(cuMemPoolTrimTo(pool, 0));
    }
    end_scenario();
}

/* --- threads --------------------------------------------------------------------------------------------------------- */

static void *use_from_thread(void *stream)
{
    if (INSIST(cuCtxSetCurrent(primary)))
        use_memory(stream, stream);
    return NULL;
}

static void scenario_threads(void)
{
    enum { THREADS = 3 };
    CUstream streams[THREADS] = { NULL };
    pthread_t threads[THREADS];

    if (!begin_scenario())
        return;
    for (int i = 0; i < THREADS; i++)
        if (!INSIST(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING)))
            return;
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, use_from_thread, streams[i]);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        INSIST(cuStreamDestroy(streams[i]));
    end_scenario();
}

static void (*scenario_named(const char *name))(void)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } all[] = { { "streams", scenario_streams },     { "capture", scenario_capture }, { "contexts", scenario_contexts },
                { "questions", scenario_questions }, { "threads", scenario_threads } };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i].name, name) == 0)
            return all[i].run;
    return NULL;
}

#endif
