#include "leaks.h"

#include "block.h"
#include "context.h"
#include "finding.h"
#include "object.h"
#include "pool.h"
#include "setting.h"
#include "state.h"
#include "stream.h"
#include "user_object.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const struct { enum sim_kind kind; const char *name; } handles[] = {
    { SIM_CONTEXT, "context" }, { SIM_STREAM, "stream" }, { SIM_EVENT, "event" }, { SIM_POOL, "pool" },
    { SIM_MODULE, "module" }, { SIM_LIBRARY, "library" }, { SIM_GRAPH, "graph" }, { SIM_EXEC, "exec" },
    { SIM_ARRAY, "array" }, { SIM_MIPMAP, "mipmap" }, { SIM_HANDLE, "physical" },
    { SIM_EXTERNAL, "external" }, { SIM_USER_OBJECT, "user" }, { SIM_TEXTURE, "texture" },
    { SIM_SURFACE, "surface" }, { SIM_LINK, "link" },
    { SIM_SEMAPHORE, "semaphore" },
};
enum { HANDLE_KINDS = sizeof handles / sizeof *handles };

enum { FEW = 3, GROUPS = SIM_BLOCK_KINDS + HANDLE_KINDS };

struct item {
    uint64_t id, address, size;
    struct sim_trace made;
};

struct group {
    uint64_t count, bytes;
    struct item oldest[FEW]; /* by id */
    unsigned kept;
};

struct census {
    struct group groups[GROUPS]; /* blocks by kind, then handles */
    uint64_t total;
    int group;                   /* of the handles that are visited */
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
    case SIM_USER_OBJECT: return sim_user_object_is_programs(o);
    default: return true;
    }
}

static void count(struct census *c, struct group *g, struct item item)
{
    unsigned at = g->kept;
    c->total++;
    g->count++;
    g->bytes += item.size;
    while (at && g->oldest[at - 1].id > item.id) at--;
    if (at == FEW) return;
    if (g->kept < FEW) g->kept++;
    for (unsigned i = g->kept - 1; i > at; i--) g->oldest[i] = g->oldest[i - 1];
    g->oldest[at] = item;
}

static void visit_block(const struct sim_block *b, void *arg)
{
    struct census *c = arg;
    if (!is_programs_block(b)) return;
    count(c, &c->groups[b->kind], (struct item){ b->id, b->range.start, b->size, b->made });
}

static void visit_object(struct sim_object *o, void *arg)
{
    struct census *c = arg;
    if (!is_programs(o)) return;
    count(c, &c->groups[c->group], (struct item){ o->id, (uint64_t)(uintptr_t)o, 0, o->made });
}

static void take(struct census *c)
{
    sim_block_each(visit_block, c);
    for (int i = 0; i < HANDLE_KINDS; i++) {
        c->group = SIM_BLOCK_KINDS + i;
        sim_object_each(handles[i].kind, visit_object, c);
    }
}

uint64_t sim_leaks_count(void)
{
    struct census c = { .total = 0 };
    take(&c);
    return c.total;
}

/* --- the list ------------------------------------------------------------------------------------------------------- */

static void head_line(const struct census *c, int i, char *text, size_t room)
{
    const struct group *g = &c->groups[i];
    if (i < SIM_BLOCK_KINDS)
        snprintf(text, room, "leak: %llu %s block(s), %llu bytes", (unsigned long long)g->count,
                 sim_block_kind_name((enum sim_block_kind)i), (unsigned long long)g->bytes);
    else
        snprintf(text, room, "leak: %llu %s handle(s)", (unsigned long long)g->count, handles[i - SIM_BLOCK_KINDS].name);
}

static void item_line(const struct item *item, char *text, size_t room)
{
    char size[48] = "";
    if (item->size) snprintf(size, sizeof size, " of %llu bytes", (unsigned long long)item->size);
    snprintf(text, room, "  0x%llx%s, made by %s, thread %u, clock %llu", (unsigned long long)item->address, size,
             item->made.fn < SIM_FN_COUNT ? sim_entries[item->made.fn].symbol : "nobody", item->made.thread,
             (unsigned long long)item->made.clock);
}

/* The line of that number, of those that a census makes. */
static bool line_of(const struct census *c, size_t index, char *text, size_t room)
{
    for (int i = 0; i < GROUPS; i++) {
        const struct group *g = &c->groups[i];
        size_t lines = g->count ? 1 + g->kept + (g->count > g->kept) : 0;
        if (index >= lines) {
            index -= lines;
            continue;
        }
        if (!index) head_line(c, i, text, room);
        else if (index <= g->kept) item_line(&g->oldest[index - 1], text, room);
        else snprintf(text, room, "  and %llu more", (unsigned long long)(g->count - g->kept));
        return true;
    }
    return false;
}

bool sim_leaks_line(size_t index, char *ret_text, size_t room)
{
    struct census c = { .total = 0 };
    take(&c);
    return line_of(&c, index, ret_text, room);
}

static void notice_block(const struct sim_block *b, void *arg)
{
    struct census *c = arg;
    if (is_programs_block(b) && c->groups[b->kind].kept++ < FEW) sim_find_call(SIM_FINDING_leak, b, 0);
}

static void print_list(void)
{
    struct census c = { .total = 0 }, noticed = { .total = 0 };
    char text[160], line[sizeof text + 16];
    sim_block_each(notice_block, &noticed);
    take(&c);
    snprintf(text, sizeof text, "no leaks");
    for (size_t i = 0; line_of(&c, i, text, sizeof text) || !i; i++) {
        int n = snprintf(line, sizeof line, "simcuda: %s\n", text);
        ssize_t written = write(STDERR_FILENO, line, (size_t)n);
        (void)written;
    }
}

static bool wanted;

__attribute__((constructor)) static void read_environment(void)
{
    wanted = sim_setting_bool(SIM_SETTING_LEAKS, false);
}

/* After the driver shut down (state.c): its destructor has no number, which is to go first. */
__attribute__((destructor(200))) static void print_at_exit(void)
{
    if (!wanted || sim_life() == SIM_FRESH || sim_life() == SIM_FORKED) return;
    sim_lock();
    print_list();
    sim_unlock();
}
