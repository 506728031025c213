#include "api.h"

#include "context.h"
#include "finding.h"
#include "locks.h"
#include "log.h"
#include "lost.h"
#include "schedule.h"
#include "state.h"

#include <stdatomic.h>
#include <string.h>

/* The address of an entry point whatever its type, also where cuda.h declares none (OpenGL, EGL, VDPAU). */
#define SIM(symbol, base, version, form) extern char sim_at_##symbol[] __asm__(#symbol);
#define STUB SIM
#include "sim_api.def"

#define LEGACY SIM_LEGACY
#define PER_THREAD SIM_PER_THREAD
const struct sim_entry sim_entries[SIM_FN_COUNT] = {
#define SIM(symbol, base, version, form) { #symbol, #base, sim_at_##symbol, version, form, true },
#define STUB(symbol, base, version, form) { #symbol, #base, sim_at_##symbol, version, form, false },
#include "sim_api.def"
};

struct counter {
    atomic_ullong calls;
    atomic_ullong fail_at; /* the call number that fails; 0: none */
    atomic_int code;
};

static struct counter counters[SIM_FN_COUNT];

enum sim_fn sim_fn_find(const char *symbol)
{
    for (int i = 0; i < SIM_FN_COUNT; i++)
        if (strcmp(sim_entries[i].symbol, symbol) == 0) return (enum sim_fn)i;
    return SIM_FN_COUNT;
}

static CUresult injected(enum sim_fn fn)
{
    struct counter *c = &counters[fn];
    uint64_t n = atomic_fetch_add_explicit(&c->calls, 1, memory_order_relaxed) + 1;
    if (n != atomic_load_explicit(&c->fail_at, memory_order_relaxed)) return CUDA_SUCCESS;
    return (CUresult)atomic_load(&c->code);
}

CUresult sim_enter_query(enum sim_fn fn)
{
    return injected(fn);
}

CUresult sim_enter_any(enum sim_fn fn)
{
    CUresult result = injected(fn);
    sim_thread.call = fn;
    if (sim_life() == SIM_GONE) return CUDA_ERROR_DEINITIALIZED;
    if (sim_thread.in_callback) {
        sim_find_call(SIM_FINDING_call_in_callback, NULL, 0);
        return CUDA_ERROR_NOT_PERMITTED;
    }
    if (sim_locks_held()) sim_find_call(SIM_FINDING_call_with_lock, NULL, 0);
    if (result != CUDA_SUCCESS) sim_lost_by(result);
    return result;
}

static CUresult enter(enum sim_fn fn)
{
    CUresult result = sim_enter_any(fn);
    if (result != CUDA_SUCCESS) return result;
    if (sim_life() != SIM_READY) return CUDA_ERROR_NOT_INITIALIZED;
    sim_schedule_breathe();
    return sim_lost_check(fn);
}

CUresult sim_enter(enum sim_fn fn)
{
    CUresult result = enter(fn);
    return result == CUDA_SUCCESS ? result : sim_log_refused(fn, result);
}

uint64_t sim_fn_calls(enum sim_fn fn)
{
    return atomic_load(&counters[fn].calls);
}

void sim_fn_fail(enum sim_fn fn, uint64_t nth, CUresult code)
{
    atomic_store(&counters[fn].code, (int)code);
    atomic_store(&counters[fn].fail_at, nth ? sim_fn_calls(fn) + nth : 0);
}

void sim_fn_reset(void)
{
    for (int i = 0; i < SIM_FN_COUNT; i++) {
        atomic_store(&counters[i].calls, 0);
        atomic_store(&counters[i].fail_at, 0);
    }
}
