#include "leaks.h"

#include "block.h"
#include "context.h"
#include "finding.h"
#include "object.h"
#include "pool.h"
#include "state.h"
#include "stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const struct { enum sim_kind kind; const char *name; } handles[] = {
    { SIM_CONTEXT, "context" }, { SIM_STREAM, "stream" }, { SIM_EVENT, "event" }, { SIM_POOL, "pool" },
    { SIM_MODULE, "module" }, { SIM_LIBRARY, "library" }, { SIM_GRAPH, "graph" }, { SIM_EXEC, "exec" },
    { SIM_ARRAY, "array" }, { SIM_MIPMAP, "mipmap" }, { SIM_HANDLE, "physical" },
};
enum { HANDLE_KINDS = sizeof handles / sizeof *handles };

struct census {
    uint64_t blocks[SIM_BLOCK_KINDS], bytes[SIM_BLOCK_KINDS], objects[SIM_KINDS];
    uint64_t total;
    bool printing;
};

/* Made by the program, and not by the driver for a context or an array of its own? */
static bool is_programs_block(const struct sim_block *b)
{
    return b->kind != SIM_BLOCK_MODULE && b->kind != SIM_BLOCK_ARRAY;
}

static bool is_programs(const struct sim_object *o)
{
    switch (o->kind) {
    case SIM_CONTEXT: return !((const struct sim_context *)o)->primary;
    case SIM_STREAM: return ((const struct sim_stream *)o)->role == SIM_STREAM_CREATED;
    case SIM_POOL: return !((const struct sim_pool *)o)->is_default;
    default: return true;
    }
}

static void visit_block(const struct sim_block *b, void *arg)
{
    struct census *c = arg;
    if (!is_programs_block(b)) return;
    c->blocks[b->kind]++;
    c->bytes[b->kind] += b->size;
    c->total++;
    if (c->printing && c->blocks[b->kind] <= 3) sim_find_call(SIM_FINDING_leak, b, 0);
}

static void visit_object(struct sim_object *o, void *arg)
{
    struct census *c = arg;
    if (!is_programs(o)) return;
    c->objects[o->kind]++;
    c->total++;
}

static void take(struct census *c)
{
    sim_block_each(visit_block, c);
    for (int i = 0; i < HANDLE_KINDS; i++) sim_object_each(handles[i].kind, visit_object, c);
}

uint64_t sim_leaks_count(void)
{
    struct census c = { .printing = false };
    take(&c);
    return c.total;
}

static void print(const char *line, int n)
{
    ssize_t written = n > 0 ? write(STDERR_FILENO, line, (size_t)n) : 0;
    (void)written;
}

void sim_leaks_print(void)
{
    struct census c = { .printing = true };
    char line[128];
    take(&c);
    for (int i = 0; i < SIM_BLOCK_KINDS; i++)
        if (c.blocks[i])
            print(line, snprintf(line, sizeof line, "simcuda: leak: %llu %s block(s), %llu bytes\n", (unsigned long long)c.blocks[i],
                                 sim_block_kind_name((enum sim_block_kind)i), (unsigned long long)c.bytes[i]));
    for (int i = 0; i < HANDLE_KINDS; i++)
        if (c.objects[handles[i].kind])
            print(line, snprintf(line, sizeof line, "simcuda: leak: %llu %s handle(s)\n",
                                 (unsigned long long)c.objects[handles[i].kind], handles[i].name));
    if (!c.total) print(line, snprintf(line, sizeof line, "simcuda: no leaks\n"));
}

/* After the driver shut down (state.c): its destructor has no number, which is to go first. */
__attribute__((destructor(200))) static void print_at_exit(void)
{
    if (!getenv("SIMCUDA_LEAKS") || sim_life() == SIM_FRESH || sim_life() == SIM_FORKED) return;
    sim_lock();
    sim_leaks_print();
    sim_unlock();
}
