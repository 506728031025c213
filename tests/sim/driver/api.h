/* The table of entry points and what every call does on the way in. Owns call counts and injected failures;
 * any thread may call everything here; no lock is taken (atomics only). */
#ifndef SIM_API_H
#define SIM_API_H

#define __CUDA_API_VERSION_INTERNAL 1 /* exact symbols: no renaming, old and _ptsz forms declared */
#pragma GCC visibility push(default)
#include <cuda.h>
#include <cudaProfiler.h>
#pragma GCC visibility pop
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_API __attribute__((visibility("default")))

/* Which stream handle 0 means: cuGetProcAddress flags of the same value. */
enum sim_default { SIM_LEGACY = 1, SIM_PER_THREAD = 2 };

enum sim_fn {
#define SIM(symbol, base, version, form) SIM_FN_##symbol,
#define STUB(symbol, base, version, form) SIM_FN_##symbol,
#include "sim_api.def"
    SIM_FN_COUNT
};

struct sim_entry {
    const char *symbol;
    const char *base; /* the name cuGetProcAddress is asked for */
    void *address;
    int version; /* first CUDA version that answers `base` with this symbol */
    int form;    /* enum sim_default */
    bool simulated;
};

extern const struct sim_entry sim_entries[SIM_FN_COUNT];

/* The entry of an exact symbol, or SIM_FN_COUNT. */
enum sim_fn sim_fn_find(const char *symbol);

/* Counts the call and says why it may not go on: deinitialised, forked, inside a host function, not initialised,
 * an injected failure, a context that an earlier one has cost. The _any form is for the calls that work before cuInit. */
CUresult sim_enter(enum sim_fn fn);
CUresult sim_enter_any(enum sim_fn fn);
/* For what always answers, whatever became of the driver: counts, and says what was injected. */
CUresult sim_enter_query(enum sim_fn fn);

uint64_t sim_fn_calls(enum sim_fn fn);
void sim_fn_fail(enum sim_fn fn, uint64_t nth, CUresult code);
void sim_fn_reset(void);

/* First line of every simulated entry point. */
#define SIM_ENTER(symbol)                               \
    do {                                                \
        CUresult refused_ = sim_enter(SIM_FN_##symbol); \
        if (refused_ != CUDA_SUCCESS) return refused_;  \
    } while (0)

/* An entry point and its per-thread twin: `call` may use `dflt`, the meaning of stream 0, and `fn`. */
#define SIM_TWIN(symbol, suffix, params, call)                               \
    CUresult symbol params                                                   \
    {                                                                        \
        const enum sim_default dflt = SIM_LEGACY;                            \
        const enum sim_fn fn = SIM_FN_##symbol;                              \
        const CUresult refused = sim_enter(fn);                              \
        return refused == CUDA_SUCCESS ? (call) : refused;                                                         \
    }                                                                        \
    CUresult symbol##suffix params                                           \
    {                                                                        \
        const enum sim_default dflt = SIM_PER_THREAD;                        \
        const enum sim_fn fn = SIM_FN_##symbol##suffix;                      \
        const CUresult refused = sim_enter(fn);                              \
        return refused == CUDA_SUCCESS ? (call) : refused;                                                         \
    }

#endif
