/* The CUDA runtimes loaded in the process and the real functions behind the runtime hooks. Owns one slot a
 * runtime (never given back: a runtime is pinned when its pointers are first handed out) and a cache from
 * call site to slot; any thread; no lock held while the loader runs.
 *
 * An exported hook is one function for all runtimes, so it finds the real one for its caller. A pointer that
 * dlsym took from one certain runtime must reach that one, so each slot has a variant of every hook.
 */
#ifndef NXM_RUNTIME_H
#define NXM_RUNTIME_H

#include "cuda_types.h"
#include "label.h"

#define NXM_RUNTIMES 4

/* Real function of `api` for code at `caller`. NULL: none in this process. */
void *nxm_runtime_real(enum nxm_api api, const void *caller);

/* Real function of `api` in that slot's runtime; NULL: it has none. */
void *nxm_runtime_slot_real(unsigned slot, enum nxm_api api);

/* The hook to hand out for `address`, a runtime's own function of that row. NULL: not one, or no slot left. */
void *nxm_runtime_variant(enum nxm_api api, const void *address);

/* Call sites are looked up afresh. Called before an object is loaded, as it may lie where another was. */
void nxm_runtime_forget_callers(void);

/* nxm_slot<k>_X: hook_X for the runtime of slot k. */
#define NXM_SLOT_DECLARE(slot, symbol, like) extern __typeof__(like) nxm_slot##slot##_##symbol;
#define RUNTIME(symbol, like, class_)  \
    NXM_SLOT_DECLARE(0, symbol, like) \
    NXM_SLOT_DECLARE(1, symbol, like) \
    NXM_SLOT_DECLARE(2, symbol, like) \
    NXM_SLOT_DECLARE(3, symbol, like)
#include "cuda_api.def"

/* What comes before the body, for who defines it before including this. */
#ifndef NXM_RUNTIME_GUARD
#define NXM_RUNTIME_GUARD(call)
#endif

/* Defines hook_X and its variants: each calls body(api, real, arguments…), or fails for want of a runtime. */
#define NXM_RUNTIME_ENTRY(name, symbol, find, body, parameters, ...)         \
    cudaError_t name parameters                                              \
    {                                                                        \
        __typeof__(hook_##symbol) *real = (__typeof__(hook_##symbol) *)find; \
        if (!real) return cudaErrorInsufficientDriver;                       \
        NXM_RUNTIME_GUARD(real(__VA_ARGS__))                                 \
        return body(NXM_API_##symbol, real, __VA_ARGS__);                    \
    }
#define NXM_RUNTIME_SLOT(slot, symbol, body, parameters, ...)                                              \
    NXM_RUNTIME_ENTRY(nxm_slot##slot##_##symbol, symbol, nxm_runtime_slot_real(slot, NXM_API_##symbol), body, \
                      parameters, __VA_ARGS__)
#define NXM_RUNTIME_HOOK(symbol, body, parameters, ...)                                                         \
    NXM_RUNTIME_ENTRY(hook_##symbol, symbol, nxm_runtime_real(NXM_API_##symbol, __builtin_return_address(0)), \
                      body, parameters, __VA_ARGS__)                                                            \
    NXM_RUNTIME_SLOT(0, symbol, body, parameters, __VA_ARGS__)                                                  \
    NXM_RUNTIME_SLOT(1, symbol, body, parameters, __VA_ARGS__)                                                  \
    NXM_RUNTIME_SLOT(2, symbol, body, parameters, __VA_ARGS__)                                                  \
    NXM_RUNTIME_SLOT(3, symbol, body, parameters, __VA_ARGS__)

#endif
