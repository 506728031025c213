/* Plants about flags: order through values in memory that streams write and wait for. */
#include "plant.h"

enum { STREAMS = 3, ROUNDS = 6 };

/* Of a twin in device or in pinned memory, of a fault in device memory: what a stream writes where the program may look, the
 * program is taken to know. */
struct flags {
    CUdeviceptr at;
    void *pinned; /* NULL: device memory */
};

static struct flags new_flags(bool fault)
{
    struct flags f = { 0 };
    if (!fault && plant_random(2)) {
        must(cuMemHostAlloc(&f.pinned, 256, CU_MEMHOSTALLOC_DEVICEMAP));
        must(cuMemHostGetDevicePointer(&f.at, f.pinned, 0));
    } else {
        must(cuMemAlloc(&f.at, 256));
        must(cuMemsetD8(f.at, 0, 256));
    }
    return f;
}

static void free_flags(struct flags f)
{
    if (f.pinned) must(cuMemFreeHost(f.pinned));
    else must(cuMemFree(f.at));
}

static void set(CUstream s, CUdeviceptr flag, unsigned value)
{
    if (plant_random(2)) must(cuStreamWriteValue32(s, flag, value, 0));
    else must(cuStreamWriteValue64(s, flag, value, 0));
}

static void wait(CUstream s, CUdeviceptr flag, unsigned value)
{
    unsigned how = plant_random(2) ? CU_STREAM_WAIT_VALUE_GEQ : CU_STREAM_WAIT_VALUE_EQ;
    must(cuStreamWaitValue32(s, flag, value, how));
}

struct pair {
    CUstream a, b;
    CUdeviceptr p;
    struct flags flags;
};

static struct pair begin(bool fault)
{
    struct pair x = { plant_stream(), plant_stream(), 0, new_flags(fault) };
    plant_noise(x.a);
    must(cuMemAllocAsync(&x.p, PLANT_BYTES, x.a));
    return x;
}

static void end(struct pair x)
{
    must(cuStreamSynchronize(x.a));
    must(cuStreamSynchronize(x.b));
    must(cuStreamDestroy(x.a));
    must(cuStreamDestroy(x.b));
    free_flags(x.flags);
}

/* What waits may be queued before what it waits for. */
static void written_too_early(bool fault)
{
    struct pair x = begin(fault);
    CUdeviceptr made = x.flags.at, used = x.flags.at + 8;
    bool late = plant_random(2);
    set(x.a, made, 1);
    wait(x.b, made, 1);
    if (fault) set(x.b, used, 1);
    must(sim_launch_touch(x.b, x.p, PLANT_BYTES));
    if (!fault && !late) set(x.b, used, 1);
    wait(x.a, used, 1);
    must(cuMemFreeAsync(x.p, x.a));
    if (!fault && late) set(x.b, used, 1);
    end(x);
}

static void the_other_flag(bool fault)
{
    struct pair x = begin(fault);
    CUdeviceptr made = x.flags.at, used = x.flags.at + 8, other = x.flags.at + 16;
    CUstream c = plant_stream();
    set(c, other, 1);
    wait(x.b, fault ? other : made, 1);
    must(sim_launch_touch(x.b, x.p, PLANT_BYTES));
    set(x.b, used, 1);
    set(x.a, made, 1);
    wait(x.a, used, 1);
    must(cuMemFreeAsync(x.p, x.a));
    must(cuStreamDestroy(c));
    end(x);
}

/* The first turn's value still stands when the second turn waits for it. */
static void a_flag_that_was_not_reset(bool fault)
{
    struct pair x = begin(fault);
    CUdeviceptr made = x.flags.at, used = x.flags.at + 8;
    for (unsigned turn = 1; turn <= 2; turn++) {
        if (turn == 1) set(x.a, made, 1);
        must(cuStreamWaitValue32(x.b, made, 1, CU_STREAM_WAIT_VALUE_EQ));
        must(sim_launch_touch(x.b, x.p, PLANT_BYTES));
        if (!fault) set(x.b, made, 0);
        set(x.b, used, turn);
        if (turn == 2 && fault) must(cuStreamSynchronize(x.b));
        if (turn == 2) set(x.a, made, 1);
        must(cuStreamWaitValue32(x.a, used, turn, CU_STREAM_WAIT_VALUE_GEQ));
        must(cuMemFreeAsync(x.p, x.a));
        if (turn == 1) must(cuMemAllocAsync(&x.p, 2 * PLANT_BYTES, x.a));
    }
    end(x);
}

/* A ring of streams hands memory on by a counter: turn i in stream i % STREAMS, queued stream by stream. */
static void take_turns(CUstream s, unsigned which, CUdeviceptr counter, CUdeviceptr p)
{
    for (unsigned turn = which ? which : STREAMS; turn <= STREAMS * ROUNDS; turn += STREAMS) {
        must(cuStreamWaitValue32(s, counter, turn, CU_STREAM_WAIT_VALUE_GEQ));
        must(sim_launch_touch(s, p, PLANT_BYTES));
        must(cuStreamWriteValue32(s, counter, turn + 1, 0));
    }
}

static void handed_round(bool fault)
{
    struct pair x = begin(fault); /* freed in b */
    CUdeviceptr counter = x.flags.at, other = x.flags.at + 8;
    CUstream s[STREAMS];
    unsigned first = plant_random(STREAMS);
    for (unsigned i = 0; i < STREAMS; i++) s[i] = plant_stream();
    set(x.a, other, 1);
    if (plant_random(2)) must(cuStreamWriteValue32(x.a, counter, 1, 0));
    else must(cuMemsetD32Async(counter, 1, 1, x.a));
    for (unsigned i = 0; i < STREAMS; i++) take_turns(s[(first + i) % STREAMS], (first + i) % STREAMS, counter, x.p);
    wait(x.b, fault ? other : counter, fault ? 1 : STREAMS * ROUNDS + 1);
    must(cuMemFreeAsync(x.p, x.b));
    for (unsigned i = 0; i < STREAMS; i++) {
        if (plant_random(2)) must(cuStreamSynchronize(s[i]));
        must(cuStreamDestroy(s[i]));
    }
    end(x);
}

const struct plant flag_plants[] = {
    { "flag written too early", "unordered-free", written_too_early },
    { "wait for the other flag", "unordered-use", the_other_flag },
    { "flag that was not reset", "unordered-use", a_flag_that_was_not_reset },
    { "handed round by a counter", "unordered-free", handed_round },
    { 0 },
};
