/* What is alive in this plugin, over all its allocators (nxmem 1.1, 18.10), and the numbers that must not
 * repeat within it. Owns the process-wide counters of one loaded plugin; any thread, no lock.
 *
 * A tally goes up before the thing can be seen and down after it is gone, so that the report may say
 * "still alive" a moment too long and never a moment too short.
 */
#ifndef NXP_TALLIES_H
#define NXP_TALLIES_H

#include <stdint.h>

#include "nxmem_memory_abi.h"

enum nxp_tally {
    NXP_TALLY_ALLOCATORS,
    NXP_TALLY_ALLOCATIONS, /* queued ones included: their bytes are still here */
    NXP_TALLY_QUEUED,
    NXP_TALLY_VIEWS,        /* shared prefixes mapped into live allocations */
    NXP_TALLY_CAPABILITIES, /* references to shared prefixes */
    NXP_TALLY_COUNT
};

void nxp_tally_up(enum nxp_tally tally);
void nxp_tally_down(enum nxp_tally tally);

uint64_t nxp_next_mechanism_id(void);
uint64_t nxp_next_ticket(void);

/* The body of NxmemQueryUnloadReadiness. */
NxmemStatus nxp_unload_report(NxmemUnloadReport *report);

#endif
