/* The control interface (../simcuda.h). */
#include "api.h"

#pragma GCC visibility push(default)
#include "../simcuda.h"
#pragma GCC visibility pop

#include "block.h"
#include "context.h"
#include "device.h"
#include "facts.h"
#include "finding.h"
#include "leaks.h"
#include "locks.h"
#include "log.h"
#include "object.h"
#include "schedule.h"
#include "setting.h"
#include "state.h"
#include "stream.h"

#include <stdio.h>
#include <string.h>

int sim_version(void)
{
    return 1;
}

/* --- streams ------------------------------------------------------------------------------------------------- */

int sim_hold(sim_stream_t h)
{
    struct sim_stream *s;
    sim_lock();
    CUresult result = sim_stream_get(h, SIM_LEGACY, &s);
    if (result == CUDA_SUCCESS) sim_stream_hold(s, true);
    sim_unlock();
    return (int)result;
}

int sim_release(sim_stream_t h)
{
    struct sim_stream *s;
    sim_lock();
    CUresult result = sim_stream_get(h, SIM_LEGACY, &s);
    if (result == CUDA_SUCCESS) sim_stream_hold(s, false);
    sim_unlock();
    return (int)result;
}

int sim_step(sim_stream_t h, uint64_t pieces)
{
    struct sim_stream *s;
    sim_lock();
    CUresult result = sim_stream_get(h, SIM_LEGACY, &s);
    if (result == CUDA_SUCCESS) {
        sim_stream_step(s, pieces);
        sim_schedule_run_steps(s);
    }
    sim_unlock();
    return (int)result;
}

void sim_hold_new_streams(int held)
{
    sim_lock();
    sim_stream_new_held = held != 0;
    sim_unlock();
}

static void release_one(struct sim_object *o, void *arg)
{
    (void)arg;
    sim_stream_hold((struct sim_stream *)o, false);
}

void sim_release_all(void)
{
    sim_lock();
    sim_object_each(SIM_STREAM, release_one, NULL);
    sim_unlock();
}

uint64_t sim_pending(sim_stream_t h)
{
    struct sim_stream *s;
    sim_lock();
    uint64_t n = sim_stream_get(h, SIM_LEGACY, &s) == CUDA_SUCCESS ? s->submitted - s->done : UINT64_MAX;
    if (!n) sim_stream_observe(s);
    sim_unlock();
    return n;
}

void sim_seed(uint64_t seed)
{
    sim_lock();
    sim_schedule_seed(seed);
    sim_unlock();
}

uint64_t sim_clock(void)
{
    return sim_schedule_clock();
}

/* --- calls --------------------------------------------------------------------------------------------------- */

uint64_t sim_calls(const char *symbol)
{
    enum sim_fn fn = sim_fn_find(symbol);
    return fn < SIM_FN_COUNT ? sim_fn_calls(fn) : UINT64_MAX;
}

int sim_fail(const char *symbol, uint64_t n, int code)
{
    enum sim_fn fn = sim_fn_find(symbol);
    if (fn == SIM_FN_COUNT) return CUDA_ERROR_NOT_FOUND;
    sim_fn_fail(fn, n, (CUresult)code);
    return CUDA_SUCCESS;
}

/* For programs that cannot call this library: the same by the environment. */
__attribute__((constructor)) static void fail_as_set(void)
{
    const char *text = sim_setting_text(SIM_SETTING_FAIL);
    char symbol[64], rest;
    unsigned long long n;
    int code;
    if (!text) return;
    if (sscanf(text, "%63[^:]:%llu:%d%c", symbol, &n, &code, &rest) != 3 || !n || code <= 0 || sim_fail(symbol, n, code))
        sim_setting_refuse(SIM_SETTING_FAIL);
}

const char *sim_symbol(size_t index, int *ret_simulated)
{
    if (index >= SIM_FN_COUNT) return NULL;
    if (ret_simulated) *ret_simulated = sim_entries[index].simulated;
    return sim_entries[index].symbol;
}

int sim_log_get(size_t index, char *text, size_t room)
{
    return sim_log_line(index, text, room);
}

/* --- what lives ------------------------------------------------------------------------------------------------ */

static int block_kind(const char *name)
{
    for (int i = 0; i < SIM_BLOCK_KINDS; i++)
        if (strcmp(sim_block_kind_name((enum sim_block_kind)i), name) == 0) return i;
    return -1;
}

uint64_t sim_live_bytes(const char *kind)
{
    int k = block_kind(kind);
    sim_lock();
    uint64_t n = k < 0 ? UINT64_MAX : sim_block_bytes((enum sim_block_kind)k);
    sim_unlock();
    return n;
}

uint64_t sim_live_blocks(const char *kind)
{
    int k = block_kind(kind);
    sim_lock();
    uint64_t n = k < 0 ? UINT64_MAX : sim_block_count((enum sim_block_kind)k);
    sim_unlock();
    return n;
}

uint64_t sim_live_objects(const char *kind)
{
    static const struct { const char *name; enum sim_kind kind; } kinds[] = {
        { "context", SIM_CONTEXT }, { "stream", SIM_STREAM }, { "event", SIM_EVENT }, { "pool", SIM_POOL },
        { "module", SIM_MODULE }, { "library", SIM_LIBRARY }, { "graph", SIM_GRAPH }, { "exec", SIM_EXEC },
        { "array", SIM_ARRAY }, { "mipmap", SIM_MIPMAP }, { "physical", SIM_HANDLE }, { "external", SIM_EXTERNAL },
        { "user", SIM_USER_OBJECT }, { "texture", SIM_TEXTURE }, { "surface", SIM_SURFACE },
        { "link", SIM_LINK }, { "semaphore", SIM_SEMAPHORE },
    };
    uint64_t n = UINT64_MAX;
    sim_lock();
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].name, kind) == 0) n = sim_object_count(kinds[i].kind);
    sim_unlock();
    return n;
}

uint64_t sim_device_used(int ordinal)
{
    sim_lock();
    struct sim_device *d = sim_device_get(ordinal);
    uint64_t n = d ? d->used : UINT64_MAX;
    sim_unlock();
    return n;
}

/* --- the oracle ------------------------------------------------------------------------------------------------ */

uint64_t sim_violations(void)
{
    return sim_finding_count_class(SIM_VIOLATION);
}

uint64_t sim_misuses(void)
{
    return sim_finding_count_class(SIM_MISUSE);
}

int sim_lock_register(void *lock, int (*is_held_by_me)(void *))
{
    if (!lock || !is_held_by_me) return CUDA_ERROR_INVALID_VALUE;
    return sim_locks_add(lock, is_held_by_me) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

void sim_lock_unregister(void *lock)
{
    sim_locks_remove(lock);
}

uint64_t sim_leaks(void)
{
    sim_lock();
    uint64_t n = sim_leaks_count();
    sim_unlock();
    return n;
}

int sim_leak_get(size_t index, char *text, size_t room)
{
    sim_lock();
    bool found = sim_leaks_line(index, text, room);
    sim_unlock();
    return found;
}

static enum sim_finding finding_of(const char *code)
{
    int i = 0;
    while (i < SIM_FINDING_COUNT && strcmp(sim_finding_code((enum sim_finding)i), code) != 0) i++;
    return (enum sim_finding)i;
}

uint64_t sim_findings(const char *code)
{
    enum sim_finding kind = finding_of(code);
    return kind < SIM_FINDING_COUNT ? sim_finding_count(kind) : UINT64_MAX;
}

const char *sim_finding_kind(size_t index)
{
    return index < SIM_FINDING_COUNT ? sim_finding_code((enum sim_finding)index) : NULL;
}

/* --- the driver as a whole --------------------------------------------------------------------------------------- */

void sim_deinitialise(void)
{
    sim_stop();
}

void sim_set_free_waits(int waits)
{
    sim_fact_put(SIM_FACT_free_waits, waits != 0);
}

int sim_fact_set(const char *name, int value)
{
    enum sim_fact fact = sim_fact_find(name);
    if (fact == SIM_FACT_COUNT) return CUDA_ERROR_NOT_FOUND;
    sim_fact_put(fact, value);
    return CUDA_SUCCESS;
}

int sim_fact_get(const char *name)
{
    enum sim_fact fact = sim_fact_find(name);
    return fact == SIM_FACT_COUNT ? -1 : sim_fact(fact);
}

const char *sim_fact_name(size_t index)
{
    return sim_fact_name_at(index);
}

void sim_set_looks(int looks)
{
    sim_lock();
    sim_settings.looks = looks;
    sim_unlock();
}

void sim_set_poison(int on)
{
    sim_lock();
    sim_arena_set_poison(on != 0);
    sim_unlock();
}

void sim_reset(void)
{
    sim_fn_reset();
    sim_log_reset();
    sim_finding_reset();
}
