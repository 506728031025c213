/* The functions a hook stands in front of. Owns the table of real addresses; filled once per library, then
 * read without locks by any thread. The driver is pinned then (RTLD_NODELETE): pointers into it have been handed out.
 *
 * Driver: one libcuda in a process, so real_X is a field of one table. Runtime: several may be loaded
 * (12 and 13, beside hidden static ones that never reach us), so the real function is found for the
 * caller (runtime.h).
 */
#ifndef NXM_REAL_H
#define NXM_REAL_H

#include <stdbool.h>

#include "core/here.h"
#include "cuda_types.h"
#include "label.h"

/* Entry points that the shim itself calls and does not hook. */
#define NXM_REAL_EXTRA(X) \
    X(cuCtxGetCurrent) X(cuCtxGetDevice) X(cuCtxPushCurrent_v2) X(cuCtxPopCurrent_v2) \
    X(cuCtxRecordEvent) X(cuStreamGetId) X(cuStreamGetId_ptsz) X(cuStreamGetCtx) \
    X(cuStreamIsCapturing) X(cuStreamIsCapturing_ptsz) X(cuThreadExchangeStreamCaptureMode) \
    X(cuEventCreate) X(cuEventDestroy_v2) X(cuEventRecord) X(cuEventRecord_ptsz) X(cuEventQuery) \
    X(cuEventSynchronize) X(cuDeviceGetDefaultMemPool) \
    X(cuGraphDestroy) \
    X(cuMemPoolGetAccess) X(cuDevicePrimaryCtxGetState)

struct nxm_real {
#define DRIVER(symbol, like, class_) __typeof__(like) *symbol;
#include "cuda_api.def"
#define NXM_REAL_FIELD(symbol) __typeof__(symbol) *symbol;
    NXM_REAL_EXTRA(NXM_REAL_FIELD)
#undef NXM_REAL_FIELD
};

/* Every pointer NULL until the driver is known; a pointer the driver lacks stays NULL for ever. */
extern NXM_HERE struct nxm_real nxm_real;

/* Makes nxm_real valid if libcuda is loaded (never loads it). Idempotent, cheap when already done; every
 * driver hook calls it first. false: no libcuda in this process. */
bool nxm_real_find(void);
#define NXM_REAL_READY 2u
extern NXM_HERE unsigned nxm_real_state; /* the table may be read once this is NXM_REAL_READY */
static inline bool nxm_real_ready(void)
{
    return __builtin_expect(__atomic_load_n(&nxm_real_state, __ATOMIC_ACQUIRE) == NXM_REAL_READY, 1) || nxm_real_find();
}

/* Whether `address` is the real function of that row (a DRIVER row). A driver that nobody named
 * libcuda is adopted here: an object that answers to a driver's name, and has the others, is one. */
bool nxm_real_is(enum nxm_api api, const void *address);

#endif
