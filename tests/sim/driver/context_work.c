/* The work of a whole context: its streams, those that were destroyed, and what its green contexts do. */
#include "context.h"
#include "state.h"
#include "stream.h"

struct visitor {
    struct sim_context *primary;
    void (*visit)(struct sim_context *, void *arg);
    void *arg;
};

static void visit_green(struct sim_object *o, void *arg)
{
    struct visitor *v = arg;
    struct sim_context *c = (struct sim_context *)o;
    if (c->green_of == v->primary) v->visit(c, v->arg);
}

void sim_context_each(struct sim_context *c, void (*visit)(struct sim_context *, void *), void *arg)
{
    struct visitor v = { c, visit, arg };
    visit(c, arg);
    if (c->primary && sim_object_count(SIM_CONTEXT) > 1) sim_object_each(SIM_CONTEXT, visit_green, &v);
}

static void add_position(struct sim_context *c, void *deps)
{
    for (struct sim_stream *s = c->streams; s; s = s->next) sim_deps_add(deps, s, s->submitted);
    sim_deps_add_all(deps, &c->orphans);
    if (sim_deps_passed(&c->orphans)) sim_deps_clear(&c->orphans);
}

void sim_context_position(struct sim_context *c, struct sim_deps *deps)
{
    sim_context_each(c, add_position, deps);
}

static void gather(struct sim_context *c, void *points)
{
    for (struct sim_stream *s = c->streams; s; s = s->next) sim_order_gather(points, s);
    sim_points_join(points, &c->orphans_known);
}

void sim_context_gather(struct sim_context *c, struct sim_points *points)
{
    sim_context_each(c, gather, points);
}

static void observe(struct sim_context *c, void *unused)
{
    (void)unused;
    for (struct sim_stream *s = c->streams; s; s = s->next) sim_order_observe_stream(s);
    sim_order_observe(&c->orphans_known);
    sim_points_clear(&c->orphans_known);
}

void sim_context_wait(struct sim_context *c)
{
    struct sim_deps deps = { 0 };
    sim_context_position(c, &deps);
    sim_context_each(c, observe, NULL);
    sim_deps_wait(&deps);
    sim_deps_clear(&deps);
}

void sim_context_await(struct sim_context *c, const struct sim_deps *deps, const struct sim_points *known)
{
    if (sim_deps_passed(&c->awaited)) sim_deps_clear(&c->awaited);
    sim_deps_add_all(&c->awaited, deps);
    sim_points_join(&c->awaited_known, known);
}

struct device_work {
    struct sim_device *device;
    struct sim_deps deps;
};

static void add_work(struct sim_object *o, void *arg)
{
    struct device_work *w = arg;
    struct sim_context *c = (struct sim_context *)o;
    if (c->device != w->device) return;
    observe(c, NULL);
    add_position(c, &w->deps);
}

void sim_context_wait_device(struct sim_device *d)
{
    struct device_work w = { .device = d };
    sim_object_each(SIM_CONTEXT, add_work, &w);
    sim_deps_wait(&w.deps);
    sim_deps_clear(&w.deps);
}
