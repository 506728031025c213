/* What a program made from a seed knows of itself: its contexts, streams, blocks and events, and what its work should leave
 * behind. For random.c alone. */
#ifndef RANDOM_H
#define RANDOM_H

#include "transcript.h"

enum { THREADS = 3, CONTEXTS = 4, STREAMS = 6, BLOCKS = 48, EVENTS = 6, COPIES = 4096 };

enum kind { NONE, SYNC, ASYNC, POOLED, NODE, MANAGED, PINNED, CREATED, GONE_KINDS };
static const char *const kind_names[] = { "none", "sync", "async", "pooled", "node", "managed", "pinned", "created" };

struct block {
    enum kind kind;
    CUdeviceptr address;
    size_t bytes;
    int context; /* whose memory it is; -1: a pool's */
    int device;
    int stream;  /* where it was used last and not waited for; -1 */
};
struct stream {
    CUstream handle;
    int context;
    int held;
};
struct event {
    CUevent handle;
    int context;
};

static const size_t sizes[] = { 1, 256, 4096, 5000, 65536, 1 << 20, 3 << 20 };

static CUcontext contexts[CONTEXTS]; /* 0: the primary one; 3: that of the second device */
static struct stream streams[STREAMS];
static struct block blocks[BLOCKS];
static struct event events[EVENTS];
static CUmemoryPool own_pool, default_pool;
static unsigned char kept[COPIES]; /* what work on a block leaves behind */
static struct {
    unsigned char expected; /* 0: nothing to see, any more */
    int stream;
} copies[COPIES];
/* Words of the last argument. calm: nothing is held, and the primary context stays; wide: everything that was added since the first
 * seeds were kept, a second device with it; careful: what is freed was waited for, as drivers want it whose free waits for nothing. */
static int calm, wide, careful;
static int copied, captured;
static int wrong, registered; /* a copy to memory that is not would wait for a held stream */
static uint64_t state;
static int thread_now;

static unsigned pick(unsigned below)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(state >> 33) % below;
}

static CUresult say(const char *call, int argument, CUresult result)
{
    printf("t%d %s %d -> %d\n", thread_now, call, argument, (int)result);
    return result;
}

static int device_of(int context)
{
    return context == 3;
}

/* --- what the program knows ------------------------------------------------------------------------------------- */

static int current(void)
{
    CUcontext context = NULL;

    cuCtxGetCurrent(&context);
    for (int i = 0; i < CONTEXTS; i++)
        if (context && contexts[i] == context)
            return i;
    return -1;
}

static int any_stream(void)
{
    int start = (int)pick(STREAMS);

    for (int i = 0; i < STREAMS; i++)
        if (streams[(start + i) % STREAMS].handle)
            return (start + i) % STREAMS;
    return -1;
}

static int any_block(void)
{
    int start = (int)pick(BLOCKS);

    for (int i = 0; i < BLOCKS; i++)
        if (blocks[(start + i) % BLOCKS].kind)
            return (start + i) % BLOCKS;
    return -1;
}

static int free_block(void)
{
    for (int i = 0; i < BLOCKS; i++)
        if (!blocks[i].kind)
            return i;
    return -1;
}

static int is_capturing(int s)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

    cuStreamIsCapturing(streams[s].handle, &status);
    return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* The work of this stream is over: blocks may be used elsewhere, and what the work left behind is looked at. */
static void stream_passed(int s)
{
    for (int i = 0; i < BLOCKS; i++)
        if (blocks[i].kind && blocks[i].stream == s)
            blocks[i].stream = -1;
    for (int i = 0; i < copied; i++) {
        if (copies[i].stream != s || !copies[i].expected)
            continue;
        if (kept[i] != copies[i].expected && ++wrong < 5)
            printf("a block held %d instead of %d\n", kept[i], copies[i].expected);
        copies[i].expected = 0;
    }
}

static int has_copies(int s)
{
    for (int i = 0; i < copied; i++)
        if (copies[i].stream == s && copies[i].expected)
            return 1;
    return 0;
}

static void block_gone(int b)
{
    blocks[b].kind = NONE;
}

static void forget_nodes(int s) /* -1: of every stream */
{
    for (int i = 0; i < BLOCKS; i++)
        if (blocks[i].kind == NODE && (s < 0 || blocks[i].stream == s))
            block_gone(i);
}

static void context_gone(int c)
{
    for (int i = 0; i < STREAMS; i++)
        if (streams[i].handle && streams[i].context == c) {
            forget_nodes(i);
            stream_passed(i);
            streams[i].handle = NULL;
        }
    for (int i = 0; i < EVENTS; i++)
        if (events[i].handle && events[i].context == c)
            events[i].handle = NULL;
    for (int i = 0; i < BLOCKS; i++)
        if (blocks[i].kind && blocks[i].context == c)
            block_gone(i);
}

#endif
