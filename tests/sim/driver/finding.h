/* The oracle's findings: counted by kind, printed on stderr with the histories of all concerned unless SIMCUDA_QUIET is
 * set. The state lock is held, except where it says otherwise. */
#ifndef SIM_FINDING_H
#define SIM_FINDING_H

#include "trace.h"

struct sim_block;
struct sim_point;
struct sim_work;

enum sim_finding {
#define FINDING(name, code, class, text) SIM_FINDING_##name,
#include "finding.def"
    SIM_FINDING_COUNT
};

enum sim_finding_class { SIM_VIOLATION, SIM_MISUSE, SIM_NOTICE };

/* This call, now. No lock needed. */
struct sim_trace sim_trace_of(enum sim_fn fn);

/* Work met a block. */
void sim_find_work(enum sim_finding, const struct sim_work *, const struct sim_block *);
/* The call that is going on did something to a block (NULL: to an address), or about nothing in particular. No lock needed
 * without a block. */
void sim_find_call(enum sim_finding, const struct sim_block *, uint64_t address);
/* Work (NULL: the call that is going on) met a block, and `other` is what it should be behind and is not. */
void sim_find_unordered(enum sim_finding, const struct sim_work *, const struct sim_block *, const struct sim_point *other);
/* The same as sim_find_call about a block that is gone, as graveyard.h remembers it. */
void sim_find_grave(enum sim_finding, uint64_t address, uint64_t size, struct sim_trace made, struct sim_trace freed);

/* No lock needed. */
uint64_t sim_finding_count(enum sim_finding);
uint64_t sim_finding_count_class(enum sim_finding_class);
const char *sim_finding_code(enum sim_finding);
void sim_finding_reset(void);

#endif
