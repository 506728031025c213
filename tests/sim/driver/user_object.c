#include "user_object.h"

#include "context.h"
#include "graph.h"
#include "state.h"

#include <limits.h>
#include <stdlib.h>

struct user_object {
    struct sim_object object; /* open while anybody holds a reference */
    uint64_t refs;            /* all of them */
    uint64_t programs;        /* those of the program's own */
    CUhostFn destructor;
    void *arg;
};

/* References that a graph holds; with `leaving`, those of one that ended. */
struct hold {
    struct hold *next;
    uint64_t holder;
    struct user_object *of; /* a reference to the struct is held */
    uint64_t count;
    bool leaving;
    struct sim_deps after;
};

static struct hold *holds;

/* Destructors to run, in order. */
static struct call {
    struct call *next;
    CUhostFn destructor;
    void *arg;
} *first_call, **last_call = &first_call;
static bool started;

static void *make(size_t size)
{
    void *p = calloc(1, size);
    if (!p) abort(); /* a reference would be lost */
    return p;
}

static void start_thread(void);

static void give_back(struct user_object *u, uint64_t count)
{
    u->refs -= count;
    if (u->refs) return;
    struct call *c = make(sizeof *c);
    c->destructor = u->destructor;
    c->arg = u->arg;
    *last_call = c;
    last_call = &c->next;
    sim_object_close(&u->object);
    start_thread();
    sim_progress();
}

static struct hold *find_hold(uint64_t holder, const struct user_object *u)
{
    for (struct hold *h = holds; h; h = h->next)
        if (h->holder == holder && h->of == u && !h->leaving) return h;
    return NULL;
}

static void add_hold(uint64_t holder, struct user_object *u, uint64_t count)
{
    struct hold *h = find_hold(holder, u);
    if (!h) {
        h = make(sizeof *h);
        *h = (struct hold){ .next = holds, .holder = holder, .of = u };
        sim_object_ref(&u->object);
        holds = h;
    }
    h->count += count;
}

static void end_hold(struct hold **link)
{
    struct hold *h = *link;
    *link = h->next;
    give_back(h->of, h->count);
    sim_object_unref(&h->of->object);
    sim_deps_clear(&h->after);
    free(h);
}

void sim_user_objects_drop(uint64_t holder, const struct sim_deps *after)
{
    for (struct hold **link = &holds; *link;) {
        struct hold *h = *link;
        if (h->holder != holder || h->leaving) {
            link = &h->next;
        } else if (after && !sim_deps_passed(after)) {
            h->leaving = true;
            sim_deps_add_all(&h->after, after);
            start_thread();
            link = &h->next;
        } else {
            end_hold(link);
        }
    }
}

void sim_user_objects_copy(uint64_t from, uint64_t to)
{
    for (struct hold *h = holds, *next; h; h = next) {
        next = h->next;
        if (h->holder != from || h->leaving) continue;
        h->of->refs += h->count;
        add_hold(to, h->of, h->count);
    }
}

bool sim_user_object_is_programs(const struct sim_object *o)
{
    return ((const struct user_object *)o)->programs > 0;
}

/* --- the thread ------------------------------------------------------------------------------------------------------ */

static bool let_go_of_what_is_over(void)
{
    bool waiting = false;
    for (struct hold **link = &holds; *link;) {
        bool passed = (*link)->leaving && sim_deps_passed(&(*link)->after);
        waiting |= (*link)->leaving && !passed;
        if (passed) end_hold(link);
        else link = &(*link)->next;
    }
    return waiting;
}

static void *run_destructors(void *unused)
{
    (void)unused;
    sim_lock();
    for (;;) {
        bool waiting = let_go_of_what_is_over();
        struct call *c = first_call;
        if (!c) {
            if (!waiting) break;
            sim_wait_a_moment();
            continue;
        }
        if (!(first_call = c->next)) last_call = &first_call;
        sim_unlock();
        sim_thread.in_callback = true;
        c->destructor(c->arg);
        sim_thread.in_callback = false;
        free(c);
        sim_lock();
    }
    started = false;
    sim_unlock();
    return NULL;
}

static void start_thread(void)
{
    pthread_t thread;
    if (started) return;
    if (pthread_create(&thread, NULL, run_destructors, NULL) != 0) abort(); /* destructors would never run */
    pthread_detach(thread);
    started = true;
}

/* --- entry points ------------------------------------------------------------------------------------------------------ */

CUresult cuUserObjectCreate(CUuserObject *object, void *ptr, CUhostFn destroy, unsigned int count, unsigned int flags)
{
    SIM_ENTER(cuUserObjectCreate);
    if (!object || !destroy || !count || count > INT_MAX || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct user_object *u = sim_object_new(SIM_USER_OBJECT, sizeof *u, NULL);
    if (u) {
        u->refs = u->programs = count;
        u->destructor = destroy;
        u->arg = ptr;
        *object = (CUuserObject)u;
    }
    sim_unlock();
    return u ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static struct user_object *get(CUuserObject h, unsigned count)
{
    return count && count <= INT_MAX ? sim_object_find(h, SIM_USER_OBJECT) : NULL;
}

CUresult cuUserObjectRetain(CUuserObject object, unsigned int count)
{
    SIM_ENTER(cuUserObjectRetain);
    sim_lock();
    struct user_object *u = get(object, count);
    if (u) {
        u->refs += count;
        u->programs += count;
    }
    sim_unlock();
    return u ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuUserObjectRelease(CUuserObject object, unsigned int count)
{
    SIM_ENTER(cuUserObjectRelease);
    sim_lock();
    struct user_object *u = get(object, count);
    bool held = u && u->programs >= count;
    if (held) {
        u->programs -= count;
        give_back(u, count);
    }
    sim_unlock();
    return held ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count, unsigned int flags)
{
    SIM_ENTER(cuGraphRetainUserObject);
    bool moves = flags == CU_GRAPH_USER_OBJECT_MOVE;
    if (flags && !moves) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_graph *g = sim_object_find(graph, SIM_GRAPH);
    struct user_object *u = get(object, count);
    bool fits = g && u && (!moves || u->programs >= count);
    if (fits) {
        if (moves) u->programs -= count;
        else u->refs += count;
        add_hold(g->object.id, u, count);
    }
    sim_unlock();
    return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count)
{
    SIM_ENTER(cuGraphReleaseUserObject);
    sim_lock();
    struct sim_graph *g = sim_object_find(graph, SIM_GRAPH);
    struct user_object *u = get(object, count);
    struct hold **link = &holds;
    while (g && u && *link && ((*link)->holder != g->object.id || (*link)->of != u || (*link)->leaving)) link = &(*link)->next;
    bool held = g && u && *link && (*link)->count >= count;
    if (held && (*link)->count == count) {
        end_hold(link);
    } else if (held) {
        (*link)->count -= count;
        give_back(u, count);
    }
    sim_unlock();
    return held ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
