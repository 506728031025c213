/* Recording memory that the driver served itself. Owns nothing (the tables are the lifecycle's); any thread;
 * table locks inside, none across the driver.
 */
#ifndef NXM_OBSERVE_H
#define NXM_OBSERVE_H

#include <stdint.h>

#include "core/blocks.h"
#include "label.h"
#include "cuda_types.h"
#include "lifecycle.h"
#include "process.h"

/* After a driver call that succeeded: the block is recorded with the calling thread's context, device and stack. */
void nxm_observe(enum nxm_table table, enum nxm_class class_, enum nxm_api api, uint64_t key, uint64_t bytes);

/* The driver is out of memory, and there was some to be given back to it: try again. */
bool nxm_observe_made_room(enum nxm_mode mode, CUresult result);

/* Around the driver's own free: the record is claimed before (the driver may hand the address out again at once) and
 * settled by the result. `mode` as the hook was entered; in a late call the block is counted as freed during exit. */
typedef CUresult (*nxm_observed_free)(void *argument);
CUresult nxm_observe_free(enum nxm_mode mode, enum nxm_table table, uint64_t key, nxm_observed_free call, void *argument);

/* A runtime allocation succeeded and no driver hook fired inside it: record *native, observed* unless the
 * address is in the table already. `class_` tells which kind. Called from runtime hooks. */
void nxm_observe_runtime(enum nxm_api api, uint64_t address, uint64_t bytes, enum nxm_class class_);
/* The counterpart: a runtime free succeeded and no driver hook fired inside it. */
void nxm_observe_runtime_free(uint64_t address);

#endif
