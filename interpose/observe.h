/* Recording memory that the driver served itself. Owns nothing (the tables are the lifecycle's); any thread;
 * table locks inside.
 */
#ifndef NXM_OBSERVE_H
#define NXM_OBSERVE_H

#include <stdint.h>

#include "core/blocks.h"
#include "label.h"

/* A runtime allocation succeeded and no driver hook fired inside it: record *native, observed* unless the
 * address is in the table already. `class_` tells which kind. Called from runtime hooks. */
void nxm_observe_runtime(enum nxm_api api, uint64_t address, uint64_t bytes, enum nxm_class class_);
/* The counterpart: a runtime free succeeded and no driver hook fired inside it. */
void nxm_observe_runtime_free(uint64_t address);

#endif
