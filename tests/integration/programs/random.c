/* A program made from a seed: `random SEED [CALLS [WORDS]]`. Three threads in turn call whatever is legal or plainly wrong, on contexts
 * that come and go, streams that the simulator holds back, and captures of every mode. Prints codes and facts, never addresses;
 * what it does depends on the seed and on the codes only, so two runs are the same as long as the driver's answers are.
 *
 * The program itself is correct where correctness is a matter of order: memory is used on one stream until that is waited for,
 * and on streams of its own context, so the simulator's oracle has to stay silent. */
#include "transcript.h"

#include <pthread.h>

#include "random.h"
#include "random_wide.h"
#include "tests/sim/simcuda.h"

CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device); /* drivers before 12.5 have no newer form */

static void register_kept(void)
{
    cuCtxPushCurrent(contexts[0]);
    registered = say("cuMemHostRegister", 0, cuMemHostRegister(kept, sizeof kept, CU_MEMHOSTREGISTER_PORTABLE)) == CUDA_SUCCESS;
    cuCtxPopCurrent(&(CUcontext){ NULL });
}

/* --- memory ------------------------------------------------------------------------------------------------------ */

static void keep(int b, enum kind kind, CUdeviceptr address, size_t bytes, int context, int stream)
{
    int of = context >= 0 || stream < 0 ? context : streams[stream].context;

    blocks[b] = (struct block){ kind, address, bytes, context, device_of(of), stream };
}

static void allocate(void)
{
    int b = free_block(), context = current();
    size_t bytes = sizes[pick(sizeof sizes / sizeof *sizes)];
    CUdeviceptr address = MARK;
    void *host = NULL;

    if (b < 0)
        return;
    switch (pick(8)) {
    case 0:
        if (!say("cuMemAllocManaged", b, cuMemAllocManaged(&address, bytes, CU_MEM_ATTACH_GLOBAL)))
            keep(b, MANAGED, address, bytes, context, -1);
        break;
    case 1:
        if (!say("cuMemAllocHost", b, cuMemAllocHost(&host, bytes)))
            keep(b, PINNED, (CUdeviceptr)(uintptr_t)host, bytes, context, -1);
        break;
    case 2: {
        size_t pitch = 0;
        if (!say("cuMemAllocPitch", b, cuMemAllocPitch(&address, &pitch, 100, 7, 4)))
            keep(b, SYNC, address, pitch * 7, context, -1);
        break;
    }
    default:
        if (!say("cuMemAlloc", b, cuMemAlloc(&address, bytes)))
            keep(b, SYNC, address, bytes, context, -1);
        else
            FACT(address == MARK);
    }
}

static void allocate_async(void)
{
    int b = free_block(), s = any_stream();
    size_t bytes = sizes[pick(sizeof sizes / sizeof *sizes)];
    CUdeviceptr address = MARK;
    unsigned how = pick(6);

    if (b < 0 || s < 0)
        return;
    int capturing = is_capturing(s);
    CUmemoryPool pool = how == 0 ? own_pool : how == 1 ? default_pool : NULL;
    if (pool && device_of(streams[s].context) != 0) /* whose memory that stream cannot reach */
        return;
    CUresult result = pool ? say("cuMemAllocFromPoolAsync", s, cuMemAllocFromPoolAsync(&address, bytes, pool, streams[s].handle))
                           : say("cuMemAllocAsync", s, cuMemAllocAsync(&address, bytes, streams[s].handle));
    if (result == CUDA_SUCCESS)
        keep(b, capturing ? NODE : pool == own_pool && pool ? POOLED : ASYNC, address, bytes, -1, s);
    else
        FACT(address == MARK);
}

static int may_meet(int b, int s)
{
    int context = blocks[b].context;

    return context >= 0 ? context == streams[s].context : blocks[b].device == device_of(streams[s].context);
}

/* Work on a block that stays behind it: a byte is written, and copied out by the same stream. */
static void touch(void)
{
    int b = any_block(), s = any_stream();

    if (b < 0 || s < 0 || blocks[b].kind == PINNED || blocks[b].kind == NODE || blocks[b].kind == CREATED)
        return;
    if (blocks[b].stream >= 0)
        s = blocks[b].stream;
    if (!streams[s].handle || is_capturing(s) || !may_meet(b, s))
        return;
    unsigned char byte = (unsigned char)(1 + pick(200));
    if (say("cuMemsetD8Async", b, cuMemsetD8Async(blocks[b].address, byte, blocks[b].bytes, streams[s].handle)))
        return;
    blocks[b].stream = s;
    int copy = copied < COPIES && registered ? copied : -1;
    if (copy >= 0 && !say("cuMemcpyDtoHAsync", b, cuMemcpyDtoHAsync(&kept[copy], blocks[b].address + blocks[b].bytes - 1, 1,
                                                                    streams[s].handle))) {
        copies[copied].expected = byte;
        copies[copied++].stream = s;
    }
}

static void free_async(int twice)
{
    int b = any_block(), s = any_stream();

    if (b < 0 || s < 0 || blocks[b].kind == CREATED)
        return;
    if (blocks[b].stream >= 0)
        s = blocks[b].stream;
    if (!streams[s].handle)
        return;
    if (!may_meet(b, s) && blocks[b].kind != PINNED)
        return;
    CUdeviceptr address = blocks[b].address;
    printf("%s: ", kind_names[blocks[b].kind]);
    if (!say("cuMemFreeAsync", s, cuMemFreeAsync(address, streams[s].handle))) {
        block_gone(b);
        if (twice && !captured) /* a graph may have been given the same address */
            say("cuMemFreeAsync again", s, cuMemFreeAsync(address, streams[s].handle));
    }
}

/* May wait for everything: whoever calls it has released, or is about to release, what is held. */
static void free_now(int twice)
{
    int b = any_block();

    if (b < 0)
        return;
    if (blocks[b].stream >= 0 && (careful || blocks[b].context < 0)) { /* a pool's memory is not waited for */
        if (say("cuStreamSynchronize", b, cuStreamSynchronize(streams[blocks[b].stream].handle)))
            return;
        stream_passed(blocks[b].stream);
    }
    CUdeviceptr address = blocks[b].address;
    int pinned = blocks[b].kind == PINNED;
    printf("%s: ", kind_names[blocks[b].kind]);
    if (pinned ? say("cuMemFreeHost", b, cuMemFreeHost((void *)(uintptr_t)address)) : say("cuMemFree", b, cuMemFree(address)))
        return;
    block_gone(b);
    if (twice && pinned)
        say("cuMemFreeHost again", b, cuMemFreeHost((void *)(uintptr_t)address));
    else if (twice)
        say("cuMemFree again", b, cuMemFree(address));
}

static void misuse(void)
{
    int b = any_block(), s = any_stream();
    CUdeviceptr address = MARK;
    CUstream stream = s >= 0 ? streams[s].handle : NULL;

    switch (pick(9)) {
    case 0: say("cuMemAlloc 0", 0, cuMemAlloc(&address, 0)); break;
    case 1: say("cuMemAlloc NULL", 0, cuMemAlloc(NULL, 16)); break;
    case 2: say("cuMemAlloc huge", 0, cuMemAlloc(&address, (size_t)1 << 50)); break;
    case 3: say("cuMemFree stack", 0, cuMemFree((CUdeviceptr)(uintptr_t)&address)); break;
    case 4: say("cuMemFree 0", 0, cuMemFree(0)); break;
    case 5: say("cuMemFreeAsync 0", s, cuMemFreeAsync(0, stream)); break;
    case 6: say("cuMemAllocAsync NULL", s, cuMemAllocAsync(NULL, 16, stream)); break;
    case 7:
        if (b >= 0 && blocks[b].bytes > 256 && blocks[b].kind != PINNED)
            say("cuMemFree inside", b, cuMemFree(blocks[b].address + 256));
        break;
    default:
        if (b >= 0 && blocks[b].kind == PINNED)
            say("cuMemFree pinned", b, cuMemFree(blocks[b].address));
        else if (b >= 0)
            say("cuMemFreeHost device", b, cuMemFreeHost((void *)(uintptr_t)blocks[b].address));
    }
    FACT(address == MARK);
}

/* Physical memory of the program's own, in legal and illegal order. */
static void virtual_memory(void)
{
    CUmemAllocationProp properties = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                       .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 } };
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr address = 0;
    size_t bytes = 2 << 20;
    unsigned early = pick(2);

    if (say("cuMemAddressReserve", 0, cuMemAddressReserve(&address, bytes, 0, 0, 0)))
        return;
    if (!say("cuMemCreate", 0, cuMemCreate(&handle, bytes, &properties, 0))) {
        CUresult mapped = say("cuMemMap", 0, cuMemMap(address, bytes, 0, handle, 0));
        say("cuMemFree mapped", 0, cuMemFree(address));
        if (early)
            say("cuMemRelease", 0, cuMemRelease(handle));
        if (mapped == CUDA_SUCCESS)
            say("cuMemUnmap", 0, cuMemUnmap(address, bytes));
        if (!early)
            say("cuMemRelease", 0, cuMemRelease(handle));
    }
    say("cuMemAddressFree", 0, cuMemAddressFree(address, bytes));
}

/* --- streams, events ---------------------------------------------------------------------------------------------- */

static void make_stream(void)
{
    int s = 0, context = current();
    unsigned flags = pick(2) ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT;

    while (s < STREAMS && streams[s].handle)
        s++;
    if (s < STREAMS && !say("cuStreamCreate", s, cuStreamCreate(&streams[s].handle, flags)))
        streams[s] = (struct stream){ streams[s].handle, context, 0 };
    else if (s < STREAMS)
        streams[s].handle = NULL;
}

static void destroy_stream(void)
{
    int s = any_stream();

    if (s < 0 || pick(3) || has_copies(s))
        return;
    for (int i = 0; i < BLOCKS; i++) /* what is used there must be waited for, or nobody could be told */
        if (blocks[i].kind && blocks[i].stream == s)
            return;
    CUstream handle = streams[s].handle;
    if (!say("cuStreamDestroy", s, cuStreamDestroy(handle))) {
        streams[s].handle = NULL;
        say("cuStreamDestroy again", s, cuStreamDestroy(handle));
    }
}

static void synchronise(void)
{
    int s = any_stream(), e = (int)pick(EVENTS);

    switch (pick(4)) {
    case 0: {
        int c = current();
        if (!say("cuCtxSynchronize", c, cuCtxSynchronize()))
            for (int i = 0; i < STREAMS; i++)
                if (streams[i].handle && streams[i].context == c)
                    stream_passed(i);
        break;
    }
    case 1:
        if (events[e].handle)
            say("cuEventSynchronize", e, cuEventSynchronize(events[e].handle));
        break;
    default:
        if (s >= 0 && !say("cuStreamSynchronize", s, cuStreamSynchronize(streams[s].handle)))
            stream_passed(s);
    }
}

static void event(void)
{
    int e = (int)pick(EVENTS), s = any_stream();

    if (!events[e].handle) {
        int context = current();
        if (!say("cuEventCreate", e, cuEventCreate(&events[e].handle, CU_EVENT_DISABLE_TIMING)))
            events[e].context = context;
        else
            events[e].handle = NULL;
    } else if (s >= 0 && pick(3)) {
        say(pick(2) ? "record" : "record ", e, cuEventRecord(events[e].handle, streams[s].handle));
        if (streams[s].held && !is_capturing(s) && events[e].context == streams[s].context)
            say("cuEventQuery of what is held", e, cuEventQuery(events[e].handle) == CUDA_SUCCESS);
    } else if (s >= 0 && pick(2)) {
        say("cuStreamWaitEvent", s, cuStreamWaitEvent(streams[s].handle, events[e].handle, 0));
    } else {
        say("cuEventDestroy", e, cuEventDestroy(events[e].handle));
        events[e].handle = NULL;
    }
}

static void hold(void)
{
    int s = any_stream();

    if (s < 0 || is_capturing(s) || calm)
        return;
    sim_hold(streams[s].handle);
    streams[s].held = 1;
}

static void release_all(void)
{
    sim_release_all();
    for (int i = 0; i < STREAMS; i++)
        streams[i].held = 0;
}

/* --- captures ----------------------------------------------------------------------------------------------------- */

static void begin_capture(void)
{
    static const CUstreamCaptureMode modes[] = { CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                                 CU_STREAM_CAPTURE_MODE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED };
    int s = any_stream();

    if (s < 0 || streams[s].held)
        return;
    captured = 1;
    say("cuStreamBeginCapture", s, cuStreamBeginCapture(streams[s].handle, modes[pick(4)]));
}

/* A graph's own memory, never freed in it, is live after the launch. */
static void end_capture(void)
{
    int s = -1;
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;

    for (int i = 0; i < STREAMS; i++)
        if (streams[i].handle && is_capturing(i) && (s < 0 || pick(2)))
            s = i;
    if (s < 0)
        return;
    CUresult result = say("cuStreamEndCapture", s, cuStreamEndCapture(streams[s].handle, &graph));
    if (result != CUDA_SUCCESS || !graph) {
        if (!is_capturing(s))
            forget_nodes(-1); /* those of joined streams too */
        return;
    }
    int launched = 0;
    if (!say("cuGraphInstantiate", s, cuGraphInstantiate(&exec, graph, 0))) {
        launched = say("cuGraphLaunch", s, cuGraphLaunch(exec, streams[s].handle)) == CUDA_SUCCESS;
        say("cuGraphExecDestroy", s, cuGraphExecDestroy(exec));
    }
    say("cuGraphDestroy", s, cuGraphDestroy(graph));
    for (int i = 0; i < BLOCKS; i++) {
        if (blocks[i].kind != NODE)
            continue;
        if (launched && blocks[i].stream == s)
            blocks[i].kind = ASYNC;
        else if (!launched || blocks[i].stream == s)
            block_gone(i);
    }
}

/* --- contexts ------------------------------------------------------------------------------------------------------ */

static void context(void)
{
    int c = 1 + (int)pick(wide ? 3 : 2);

    switch (pick(8)) {
    case 0:
        if (!contexts[c] && say("cuCtxCreate", c, cuCtxCreate_v2(&contexts[c], 0, 0)))
            contexts[c] = NULL;
        break;
    case 1: {
        CUcontext handle = contexts[c];
        if (!handle || say("cuCtxDestroy", c, cuCtxDestroy(handle)))
            break;
        context_gone(c);
        contexts[c] = NULL;
        say("cuCtxDestroy again", c, cuCtxDestroy(handle));
        break;
    }
    case 2:
        if (calm || pick(4))
            break;
        for (int i = 0; i < STREAMS; i++) /* which still write to what is registered in the primary context */
            if (streams[i].handle && streams[i].context != 0 && has_copies(i))
                return;
        if (!say("cuDevicePrimaryCtxReset", 0, cuDevicePrimaryCtxReset(0))) {
            context_gone(0);
            say("cuMemAlloc after reset", 0, cuMemAlloc(&(CUdeviceptr){ 0 }, 64));
            say("cuDevicePrimaryCtxRetain", 0, cuDevicePrimaryCtxRetain(&contexts[0], 0));
            register_kept();
        }
        break;
    case 3:
        say("cuCtxSetCurrent none", 0, pick(3) ? CUDA_SUCCESS : cuCtxSetCurrent(NULL));
        break;
    default:
        if (pick(2))
            c = 0;
        say("cuCtxSetCurrent", c, cuCtxSetCurrent(contexts[c]));
    }
}

static void pool(void)
{
    CUmemPoolProps properties = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 } };

    if (!own_pool) {
        if (say("cuMemPoolCreate", 0, cuMemPoolCreate(&own_pool, &properties)))
            own_pool = NULL;
    } else if (pick(3)) {
        say("cuDeviceSetMemPool", 0, cuDeviceSetMemPool(0, pick(2) ? own_pool : default_pool));
    } else {
        say("cuDeviceSetMemPool", 0, cuDeviceSetMemPool(0, default_pool));
        for (int i = 0; i < BLOCKS; i++)
            if (blocks[i].kind == POOLED)
                return;
        say("cuMemPoolDestroy", 0, cuMemPoolDestroy(own_pool));
        own_pool = NULL;
    }
}

static void totals(void)
{
    size_t free_bytes = 0, total = 0;

    say("cuMemGetInfo", 0, cuMemGetInfo(&free_bytes, &total));
    FACT(free_bytes > total);
}

/* --- one call at a time, each on its thread --------------------------------------------------------------------------- */

enum op { ALLOCATE, ALLOCATE_ASYNC, TOUCH, FREE_ASYNC, FREE, MISUSE, VIRTUAL, STREAM, DESTROY, WAIT, EVENT, HOLD, RELEASE,
          BEGIN, END, CONTEXT, POOL, TOTALS,
          NO_HANDLE, QUESTION, SECOND, TRIM, OPS };
enum { NARROW_OPS = NO_HANDLE };
static const unsigned char weights[OPS] = { 14, 14, 18, 12, 12, 4, 1, 5, 2, 6, 5, 4, 2, 2, 6, 5, 2, 2, 8, 8, 3, 2 };

static void perform(enum op op, int again)
{
    switch (op) {
    case ALLOCATE: allocate(); break;
    case ALLOCATE_ASYNC: allocate_async(); break;
    case TOUCH: touch(); break;
    case FREE_ASYNC: free_async(again); break;
    case FREE: free_now(again); break;
    case MISUSE: misuse(); break;
    case VIRTUAL: virtual_memory(); break;
    case STREAM: make_stream(); break;
    case DESTROY: destroy_stream(); break;
    case WAIT: synchronise(); break;
    case EVENT: event(); break;
    case HOLD: hold(); break;
    case RELEASE: release_all(); break;
    case BEGIN: begin_capture(); break;
    case END: end_capture(); break;
    case CONTEXT: context(); break;
    case POOL: pool(); break;
    case TOTALS: totals(); break;
    case NO_HANDLE: stream_without_handle(); break;
    case QUESTION: question(); break;
    case SECOND: second_device(); break;
    case TRIM: trim(); break;
    case OPS: break;
    }
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int turn; /* whose call is next; 0: the main thread goes on */
static enum op next_op;
static int next_again, over;

static void *worker(void *argument)
{
    int me = (int)(intptr_t)argument;

    pthread_mutex_lock(&lock);
    for (;;) {
        while (turn != me && !over)
            pthread_cond_wait(&changed, &lock);
        if (over)
            break;
        pthread_mutex_unlock(&lock);
        perform(next_op, next_again);
        pthread_mutex_lock(&lock);
        turn = 0;
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void call(int thread, enum op op, int again)
{
    int may_wait = op == ALLOCATE || op == FREE || op == WAIT || op == CONTEXT || op == MISUSE || op == VIRTUAL || op == END || op == TOTALS ||
                   op == NO_HANDLE || op == SECOND || op == TRIM;

    thread_now = thread;
    if (may_wait) /* what the call waits for is let go while it waits, or before */
        for (int i = 0; i < STREAMS; i++)
            streams[i].held = 0;
    if (thread == 0) {
        if (may_wait)
            sim_release_all();
        perform(op, again);
        return;
    }
    pthread_mutex_lock(&lock);
    next_op = op;
    next_again = again;
    turn = thread;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    if (may_wait)
        sim_release_all();
    pthread_mutex_lock(&lock);
    while (turn != 0)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static enum op weighted(void)
{
    unsigned sum = 0, at;

    int ops = wide ? OPS : NARROW_OPS;

    for (int i = 0; i < ops; i++)
        sum += weights[i];
    at = pick(sum);
    for (int i = 0; i < ops; i++) {
        if (at < weights[i])
            return (enum op)i;
        at -= weights[i];
    }
    return OPS;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    int calls = argc > 2 ? atoi(argv[2]) : 400;

    state = strtoull(argc > 1 ? argv[1] : "1", NULL, 10) * 7919 + 17;
    calm = argc > 3 && strstr(argv[3], "calm");
    wide = argc > 3 && strstr(argv[3], "wide");
    careful = argc > 3 && strstr(argv[3], "careful");
    contexts[0] = begin();
    if (wide && cuDevicePrimaryCtxRetain(&contexts[3], 1) != CUDA_SUCCESS)
        contexts[3] = NULL;
    cuDeviceGetDefaultMemPool(&default_pool, 0);
    register_kept();
    for (intptr_t i = 1; i < THREADS; i++)
        pthread_create(&threads[i], NULL, worker, (void *)i);
    for (int i = 0; i < calls; i++) {
        printf("%d ", i);
        call((int)pick(THREADS), weighted(), pick(4) == 0);
        puts("");
        fflush(stdout);
    }
    for (int i = 0; i < 3 * STREAMS; i++) /* captures end by the thread that began them */
        call(i % THREADS, END, 0);
    sim_release_all();
    pthread_mutex_lock(&lock);
    over = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    for (int i = 1; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    thread_now = 0;
    FACT(wrong);
    FACT(sim_violations());
    FACT(sim_misuses());
    return 0;
}
