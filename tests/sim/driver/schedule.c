#include "schedule.h"

#include "context.h"
#include "setting.h"
#include "state.h"
#include "stream.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

/* Host functions may wait for the program, which is then not held up for longer than this. So long, too, must the
 * program do without any call before the device works on by itself: it waits for a byte that a copy will write. */
enum { PATIENCE_MS = 1000 };

static atomic_bool seeded;
static atomic_ullong clock_now, calls;

/* All of this: state lock held. */
static struct sim_stream *first, **tail = &first; /* streams with work; a reference is held */
static struct sim_stream *last_run;               /* for comparison only */
static uint64_t random_state;
static unsigned pace;   /* chance, of 16, that a call runs one more piece */
static bool sticky;     /* one stream runs as far as it can before another is looked at */
static bool runner_started;
static struct sim_stream *errand; /* whose host function the runner runs */
static pthread_cond_t errand_given = PTHREAD_COND_INITIALIZER;
static _Thread_local bool in_piece, is_runner;

uint64_t sim_schedule_clock(void)
{
    return atomic_load_explicit(&clock_now, memory_order_relaxed);
}

void sim_schedule_tick(void)
{
    atomic_fetch_add_explicit(&clock_now, 1, memory_order_relaxed);
}

bool sim_schedule_seeded(void)
{
    return atomic_load_explicit(&seeded, memory_order_relaxed);
}

static uint64_t random_number(void)
{
    uint64_t x = random_state += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

static void *runner(void *);

static void start_runner(void)
{
    pthread_t thread;
    if (runner_started) return;
    if (pthread_create(&thread, NULL, runner, NULL) != 0) abort(); /* host functions would never run */
    pthread_detach(thread);
    runner_started = true;
}

/* --- who is ready -------------------------------------------------------------------------------------------- */

void sim_schedule_enter(struct sim_stream *s)
{
    if (s->scheduled) return;
    s->scheduled = true;
    s->schedule_next = NULL;
    sim_object_ref(&s->object);
    *tail = s;
    tail = &s->schedule_next;
    start_runner();
}

static void leave(struct sim_stream **link)
{
    struct sim_stream *s = *link;
    *link = s->schedule_next;
    if (tail == &s->schedule_next) tail = link;
    if (last_run == s) last_run = NULL;
    s->scheduled = false;
    sim_object_unref(&s->object);
}

static bool ready(const struct sim_stream *s)
{
    return sim_stream_may_run(s) && !(errand && s->head->calls_host);
}

bool sim_schedule_looks(void)
{
    for (const struct sim_stream *s = first; s; s = s->schedule_next)
        if (s->head && !s->busy && s->head->ready) return true;
    return false;
}

/* Streams without work leave the list on the way. */
static struct sim_stream *choose(void)
{
    unsigned count = 0;
    struct sim_stream *same = NULL;
    for (struct sim_stream **link = &first; *link;) {
        if (!(*link)->head) {
            leave(link);
            continue;
        }
        if (ready(*link)) {
            count++;
            if (*link == last_run) same = *link;
        }
        link = &(*link)->schedule_next;
    }
    if (!count) return NULL;
    uint64_t n = random_number() % count;
    if (sticky && same) return same;
    for (struct sim_stream *s = first; s; s = s->schedule_next)
        if (ready(s) && n-- == 0) return s;
    return NULL;
}

/* --- the runner: host functions, and what nobody would run ----------------------------------------------------- */

static struct timespec deadline(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_sec += PATIENCE_MS / 1000;
    return t;
}

static void run_here(struct sim_stream *s)
{
    sim_object_ref(&s->object);
    in_piece = true;
    sim_stream_run_head(s);
    in_piece = false;
    sim_object_unref(&s->object);
}

/* The program makes no calls: it may be waiting for memory to change. */
static void run_all_ready(void)
{
    struct sim_stream *s;
    while (sim_schedule_seeded() && !errand && (s = choose())) run_here(s);
}

static void *runner(void *unused)
{
    unsigned long long seen = 0;
    (void)unused;
    is_runner = true;
    sim_lock();
    for (;;) {
        struct timespec until = deadline();
        while (!errand && pthread_cond_timedwait(&errand_given, sim_state_mutex(), &until) == 0) ;
        if (errand) {
            if (sim_stream_may_run(errand)) run_here(errand); /* it may have been held, or given a worker, since */
            sim_object_unref(&errand->object);
            errand = NULL;
            sim_progress();
        } else if (atomic_load(&calls) == seen) {
            run_all_ready();
        }
        seen = atomic_load(&calls);
    }
    return NULL;
}

static void wait_for_errand(void)
{
    struct timespec until = deadline();
    struct sim_stream *mine = errand;
    while (errand && errand == mine && sim_wait_progress_until(&until)) ;
}

/* --- running --------------------------------------------------------------------------------------------------- */

static void run_one(struct sim_stream *s)
{
    last_run = s;
    if (!s->head->calls_host) {
        run_here(s);
        return;
    }
    sim_object_ref(&s->object);
    errand = s;
    pthread_cond_signal(&errand_given);
    wait_for_errand();
}

bool sim_schedule_step(void)
{
    if (!sim_schedule_seeded() || in_piece || is_runner) return false;
    struct sim_stream *s = choose();
    if (s) run_one(s);
    return s != NULL;
}

void sim_schedule_run_steps(struct sim_stream *s)
{
    if (!sim_schedule_seeded() || in_piece || is_runner) return;
    sim_object_ref(&s->object);
    while (s->scheduled && s->held && s->steps && ready(s)) run_one(s);
    sim_object_unref(&s->object);
}

void sim_schedule_breathe(void)
{
    if (!sim_schedule_seeded() || in_piece || is_runner) return;
    atomic_fetch_add(&calls, 1);
    sim_lock();
    while (random_number() % 16 < pace && sim_schedule_step()) ;
    sim_unlock();
}

/* --- beginning and end ------------------------------------------------------------------------------------------- */

__attribute__((constructor)) static void read_seed(void)
{
    uint64_t seed = sim_setting_number(SIM_SETTING_SEED, 0, 0, UINT64_MAX);
    if (seed) sim_schedule_seed(seed);
}

static void take_from_worker(struct sim_object *o, void *arg)
{
    (void)arg;
    if (((struct sim_stream *)o)->head) sim_schedule_enter((struct sim_stream *)o);
}

void sim_schedule_seed(uint64_t seed)
{
    static const unsigned char paces[4] = { 1, 6, 11, 15 };
    random_state = seed;
    last_run = NULL;
    atomic_store(&seeded, seed != 0);
    if (seed) {
        pace = paces[random_number() % 4];
        sticky = random_number() % 2;
        sim_object_each(SIM_STREAM, take_from_worker, NULL);
        return;
    }
    while (first) {
        struct sim_stream *s = first;
        sim_object_ref(&s->object);
        leave(&first);
        if (s->head) sim_stream_employ(s);
        sim_object_unref(&s->object);
    }
}
