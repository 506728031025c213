/* What is known of contexts: the device each belongs to, and which one is a device's primary context. Owns the records, kept
 * until the context is destroyed; any thread; NXM_RANK_SCOPE inside, never across the driver.
 */
#ifndef NXM_CONTEXT_H
#define NXM_CONTEXT_H

#include "cuda_types.h"

/* Asked of the driver once, with the context current for a moment. -1: unknown. */
int nxm_context_device(CUcontext context);

/* The driver told somebody which context is a device's primary one; the shim retains none itself. */
void nxm_context_is_primary(int device, CUcontext context);
CUcontext nxm_context_primary(int device); /* NULL: not known */

/* It was destroyed or reset: its handle may come back for another. */
void nxm_context_forget(CUcontext context);

#endif
