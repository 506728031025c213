#include "finding.h"

#include "block.h"
#include "context.h"
#include "schedule.h"
#include "setting.h"
#include "work.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const struct { const char *code, *text; enum sim_finding_class class; } kinds[SIM_FINDING_COUNT] = {
#define VIOLATION SIM_VIOLATION
#define MISUSE SIM_MISUSE
#define NOTICE SIM_NOTICE
#define FINDING(name, code, class, text) { code, text, class },
#include "finding.def"
};

static atomic_ullong counts[SIM_FINDING_COUNT];
static bool quiet, notices;

__attribute__((constructor)) static void read_environment(void)
{
    quiet = sim_setting_bool(SIM_SETTING_QUIET, false);
    notices = sim_setting_bool(SIM_SETTING_NOTICES, false);
}

struct sim_trace sim_trace_of(enum sim_fn fn)
{
    return (struct sim_trace){ fn, sim_thread_number(), sim_schedule_clock() };
}

/* --- one finding, one write: findings of two threads stay apart ---------------------------------------------- */

struct text {
    char bytes[1536];
    size_t length;
};

__attribute__((format(printf, 2, 3))) static void put(struct text *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(t->bytes + t->length, sizeof t->bytes - t->length, format, args);
    va_end(args);
    if (n > 0) t->length += (size_t)n;
    if (t->length >= sizeof t->bytes) t->length = sizeof t->bytes - 1;
}

static const char *name_of(enum sim_fn fn)
{
    return fn < SIM_FN_COUNT ? sim_entries[fn].symbol : "nobody";
}

static void put_trace(struct text *t, const char *what, struct sim_trace trace)
{
    if (trace.fn >= SIM_FN_COUNT) return;
    put(t, "simcuda:   %s by %s, thread %u, clock %llu\n", what, name_of(trace.fn), trace.thread,
        (unsigned long long)trace.clock);
}

static void put_block(struct text *t, const char *what, const struct sim_block *b)
{
    put(t, "simcuda:   %s: %s block 0x%llx of %llu bytes (id %llu)\n", what, sim_block_kind_name(b->kind),
        (unsigned long long)b->range.start, (unsigned long long)b->size, (unsigned long long)b->id);
    put_trace(t, "allocated", b->made);
    put_trace(t, b->kind == SIM_BLOCK_MAP ? "unmapped" : "freed", b->freed);
}

/* Whoever has the addresses of a block that is gone. */
static void put_successor(struct text *t, const struct sim_block *b)
{
    struct sim_block *next = sim_block_mapped_in(b->range.start, b->range.size);
    if (next && next != b) put_block(t, "now", next);
}

/* Counts it, and says whether anybody reads about it. */
static bool begin(enum sim_finding kind, struct text *t, enum sim_fn fn)
{
    static const char *const classes[] = { "violation", "misuse", "notice" };
    atomic_fetch_add(&counts[kind], 1);
    if (quiet || (kinds[kind].class == SIM_NOTICE && !notices)) return false;
    t->length = 0;
    put(t, "simcuda: %s [%s] %s: %s\n", classes[kinds[kind].class], kinds[kind].code, name_of(fn), kinds[kind].text);
    return true;
}

static void end(const struct text *t)
{
    ssize_t n = write(STDERR_FILENO, t->bytes, t->length);
    (void)n;
}

void sim_find_work(enum sim_finding kind, const struct sim_work *w, const struct sim_block *b)
{
    struct text t;
    if (!begin(kind, &t, w->submitted.fn)) return;
    put_trace(&t, "work submitted", w->submitted);
    put_trace(&t, "launched", w->launched);
    put_block(&t, "memory", b);
    put_successor(&t, b);
    end(&t);
}

void sim_find_unordered(enum sim_finding kind, const struct sim_work *w, const struct sim_block *b,
                        const struct sim_point *other)
{
    struct text t;
    if (!begin(kind, &t, w ? w->submitted.fn : sim_thread.call)) return;
    if (w) {
        put_trace(&t, "work submitted", w->submitted);
        put_trace(&t, "launched", w->launched);
    } else {
        put_trace(&t, "found", sim_trace_of(sim_thread.call));
    }
    put(&t, "simcuda:   not behind %s, thread %u, clock %llu, ", name_of(other->by.fn), other->by.thread,
        (unsigned long long)other->by.clock);
    if (other->track) put(&t, "in stream 0x%llx\n", (unsigned long long)other->track->stream);
    else put(&t, "in another branch of the graph\n");
    put_block(&t, "memory", b);
    if (w) put_successor(&t, b);
    end(&t);
}

void sim_find_call(enum sim_finding kind, const struct sim_block *b, uint64_t address)
{
    struct text t;
    if (!begin(kind, &t, sim_thread.call)) return;
    put_trace(&t, "found", sim_trace_of(sim_thread.call));
    if (b) put_block(&t, "memory", b);
    else if (address) put(&t, "simcuda:   address 0x%llx\n", (unsigned long long)address);
    end(&t);
}

void sim_find_grave(enum sim_finding kind, uint64_t address, uint64_t size, struct sim_trace made, struct sim_trace freed)
{
    struct text t;
    if (!begin(kind, &t, sim_thread.call)) return;
    put_trace(&t, "found", sim_trace_of(sim_thread.call));
    put(&t, "simcuda:   memory: 0x%llx of %llu bytes\n", (unsigned long long)address, (unsigned long long)size);
    put_trace(&t, "allocated", made);
    put_trace(&t, "freed", freed);
    end(&t);
}

/* --- counts ---------------------------------------------------------------------------------------------------- */

uint64_t sim_finding_count(enum sim_finding kind)
{
    return atomic_load(&counts[kind]);
}

uint64_t sim_finding_count_class(enum sim_finding_class class)
{
    uint64_t n = 0;
    for (int i = 0; i < SIM_FINDING_COUNT; i++)
        if (kinds[i].class == class) n += atomic_load(&counts[i]);
    return n;
}

const char *sim_finding_code(enum sim_finding kind)
{
    return kind < SIM_FINDING_COUNT ? kinds[kind].code : NULL;
}

void sim_finding_reset(void)
{
    for (int i = 0; i < SIM_FINDING_COUNT; i++) atomic_store(&counts[i], 0);
}
