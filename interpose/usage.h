/* What the driver says is in use of each device's memory beside what is recorded here, as of the last time that the program
 * itself asked (cuMemGetInfo): no call of ours is added. Owns a small table by device; any thread; no locks.
 */
#ifndef NXM_USAGE_H
#define NXM_USAGE_H

#include <stddef.h>
#include <stdint.h>

#include "core/journal.h"
#include "core/report.h"

#define NXM_USAGE_DEVICES NXM_JOURNAL_DEVICES

/* After the driver's answer for the current context's device, in bytes. */
void nxm_usage_answered(uint64_t free_bytes, uint64_t total_bytes);

/* Those that were asked about; at most NXM_USAGE_DEVICES. */
size_t nxm_usage_list(struct nxm_device_memory *ret_list);

#endif
