#include "object.h"

#include "context.h"
#include "finding.h"

#include <stdlib.h>

enum { BUCKETS = 4096 };

static struct sim_object *buckets[BUCKETS];
static size_t counts[SIM_KINDS];
static uint64_t last_id;

static struct sim_object **bucket_of(const void *handle)
{
    uint64_t x = (uint64_t)(uintptr_t)handle >> 4;
    return &buckets[(x ^ (x >> 12)) % BUCKETS];
}

/* Into the table, with the handle's reference. */
static void open_object(struct sim_object *o)
{
    struct sim_object **bucket = bucket_of(o);
    o->open = true;
    o->refs++;
    o->next = *bucket;
    *bucket = o;
    counts[o->kind]++;
}

void sim_object_reopen(struct sim_object *o)
{
    open_object(o);
}

void *sim_object_new(enum sim_kind kind, size_t size, void (*destroy)(struct sim_object *))
{
    struct sim_object *o = calloc(1, size);
    if (!o) return NULL;
    o->kind = kind;
    o->id = ++last_id;
    o->made = sim_trace_of(sim_thread.call);
    o->destroy = destroy;
    open_object(o);
    return o;
}

void *sim_object_find(const void *handle, enum sim_kind kind)
{
    for (struct sim_object *o = *bucket_of(handle); o; o = o->next)
        if (o == handle) return o->kind == kind ? o : NULL;
    return NULL;
}

void sim_object_close(struct sim_object *o)
{
    struct sim_object **link = bucket_of(o);
    while (*link != o) link = &(*link)->next;
    *link = o->next;
    o->next = NULL;
    o->open = false;
    counts[o->kind]--;
    sim_object_unref(o);
}

void sim_object_ref(struct sim_object *o)
{
    o->refs++;
}

void sim_object_unref(struct sim_object *o)
{
    if (--o->refs) return;
    if (o->destroy) o->destroy(o);
    free(o);
}

size_t sim_object_count(enum sim_kind kind)
{
    return counts[kind];
}

void sim_object_each(enum sim_kind kind, void (*visit)(struct sim_object *, void *), void *arg)
{
    for (size_t i = 0; i < BUCKETS; i++)
        for (struct sim_object *o = buckets[i]; o; o = o->next)
            if (o->kind == kind) visit(o, arg);
}
