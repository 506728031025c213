/* What the simulator tells: the call log (a ring in memory, and the file named by SIMCUDA_LOG), violations and
 * misuse (counted, printed on stderr unless SIMCUDA_QUIET is set). Any thread; takes only a lock of its own, so it
 * may be called with or without the state lock. */
#ifndef SIM_LOG_H
#define SIM_LOG_H

#include "api.h"

struct sim_block;

/* One allocation-relevant call that has just been answered; the second form adds up to two "key=value" words (a NULL
 * key ends them). Keys are string constants; handles are written in hexadecimal. */
void sim_log_plain(enum sim_fn fn, CUresult result, uint64_t address);
void sim_log_call(enum sim_fn fn, CUresult result, uint64_t address, const char *key, uint64_t value,
                  const char *key2, uint64_t value2);

/* The oracle's findings: memory, and the call whose work met it (sim_log_violation: the call that is at fault is
 * the one that freed the block). State lock held. */
void sim_log_violation(const struct sim_block *, const char *what);
void sim_log_violation_by(const struct sim_block *, enum sim_fn fn, const char *what);
/* A violation without a block: work was given an address that is nobody's. */
void sim_log_violation_at(uint64_t address, enum sim_fn fn, const char *what);
void sim_log_misuse(enum sim_fn fn, const char *what);

uint64_t sim_log_violation_count(void);
uint64_t sim_log_misuse_count(void);
/* Copies line number `index` (0: the oldest kept) of the ring; false when there is none. */
bool sim_log_line(size_t index, char *ret_text, size_t room);
void sim_log_reset(void);

#endif
