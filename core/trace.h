/* The call stack of this moment, by the unwinder that was asked for, or by the C library's where that one cannot follow. Owns
 * what is known of the process: which image is ours, which unwinder. Any thread; no lock, no malloc, except in the C library's. */
#ifndef NXM_TRACE_H
#define NXM_TRACE_H

#include "options.h"
#include "unwind.h"

/* Warm-up: at first use, outside any lock. */
void nxm_trace_prepare(void);
bool nxm_trace_is_prepared(void);

void nxm_trace_use(enum nxm_unwinder unwinder);

/* Up to `depth` frames (NXM_TRACE_MAX), those of our own library left out. `from`: the caller's registers. */
void nxm_trace_take(const struct nxm_registers *from, unsigned depth, struct nxm_trace *ret_trace);

#endif
