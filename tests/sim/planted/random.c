/* A program at random: streams, memory, uses and waits, each wait only where the order needs it. The fault gives the last
 * block back in a stream that waits for nobody. */
#include "plant.h"

enum { STREAMS = 4, BLOCKS = 6, STEPS = 40 };

struct block {
    CUdeviceptr p;
    int home;             /* stream that allocated it */
    CUevent made;
    CUevent used[STREAMS]; /* NULL: not used there */
};

struct program {
    CUstream streams[STREAMS];
    struct block blocks[BLOCKS];
};

static void start(struct program *g)
{
    for (int i = 0; i < STREAMS; i++)
        must(cuStreamCreate(&g->streams[i], plant_random(3) ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
    for (int i = 0; i < BLOCKS; i++) g->blocks[i] = (struct block){ 0 };
}

static void make(struct program *g, struct block *b)
{
    *b = (struct block){ .home = (int)plant_random(STREAMS), .made = plant_event() };
    must(cuMemAllocAsync(&b->p, 512 * (1 + plant_random(16)), g->streams[b->home]));
    must(cuEventRecord(b->made, g->streams[b->home]));
}

static void use(struct program *g, struct block *b)
{
    int s = (int)plant_random(STREAMS);
    if (s != b->home) must(cuStreamWaitEvent(g->streams[s], b->made, 0));
    if (plant_random(2)) must(sim_launch_touch(g->streams[s], b->p, 512));
    else must(cuMemsetD8Async(b->p, (unsigned char)s, 512, g->streams[s]));
    if (!b->used[s]) b->used[s] = plant_event();
    must(cuEventRecord(b->used[s], g->streams[s]));
}

/* Everything that used it must be over where it is freed: by a wait in the stream, or because the program waited. */
static void give_back(struct program *g, struct block *b)
{
    int s = (int)plant_random(STREAMS);
    bool program_waits = plant_random(4) == 0;
    must(cuStreamWaitEvent(g->streams[s], b->made, 0));
    for (int i = 0; i < STREAMS; i++) {
        if (!b->used[i]) continue;
        if (program_waits) must(cuEventSynchronize(b->used[i]));
        else must(cuStreamWaitEvent(g->streams[s], b->used[i], 0));
    }
    if (program_waits && plant_random(2)) {
        must(cuEventSynchronize(b->made));
        must(cuMemFree(b->p));
    } else {
        must(cuMemFreeAsync(b->p, g->streams[s]));
    }
}

static void forget(struct block *b)
{
    must(cuEventDestroy(b->made));
    for (int i = 0; i < STREAMS; i++)
        if (b->used[i]) must(cuEventDestroy(b->used[i]));
    *b = (struct block){ 0 };
}

static void step(struct program *g)
{
    struct block *b = &g->blocks[plant_random(BLOCKS)];
    if (!b->p) {
        make(g, b);
    } else if (plant_random(4)) {
        use(g, b);
    } else {
        give_back(g, b);
        forget(b);
    }
    if (plant_random(16) == 0) must(cuStreamSynchronize(g->streams[plant_random(STREAMS)]));
}

static void random_program(bool fault)
{
    struct program g;
    start(&g);
    for (int i = 0; i < STEPS; i++) step(&g);
    struct block *last = &g.blocks[0];
    if (!last->p) make(&g, last);
    use(&g, last);
    if (fault) {
        CUstream alone = plant_stream();
        must(cuMemFreeAsync(last->p, alone));
        must(cuStreamDestroy(alone));
        forget(last);
    }
    for (int i = 0; i < BLOCKS; i++) {
        if (!g.blocks[i].p) continue;
        give_back(&g, &g.blocks[i]);
        forget(&g.blocks[i]);
    }
    must(cuCtxSynchronize());
    for (int i = 0; i < STREAMS; i++) must(cuStreamDestroy(g.streams[i]));
}

const struct plant random_plants[] = {
    { "random program", "unordered-free", random_program },
    { 0 },
};
