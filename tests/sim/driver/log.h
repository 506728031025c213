/* The call log: a ring in memory, and the file named by SIMCUDA_LOG. Any thread; takes only a lock of its own, so it may
 * be called with or without the state lock. */
#ifndef SIM_LOG_H
#define SIM_LOG_H

#include "api.h"

/* One allocation-relevant call that has just been answered; the second form adds up to two "key=value" words (a NULL
 * key ends them). Keys are string constants; handles are written in hexadecimal. */
void sim_log_plain(enum sim_fn fn, CUresult result, uint64_t address);
void sim_log_call(enum sim_fn fn, CUresult result, uint64_t address, const char *key, uint64_t value,
                  const char *key2, uint64_t value2);

/* A call that was answered before it did anything, if it is one that gets lines: its code, which is returned again. */
CUresult sim_log_refused(enum sim_fn fn, CUresult result);

/* Copies line number `index` (0: the oldest kept) of the ring; false when there is none. */
bool sim_log_line(size_t index, char *ret_text, size_t room);
void sim_log_reset(void);
/* Around a fork, whose child must find the log free; the state lock is held already. */
void sim_log_before_fork(void);
void sim_log_after_fork(void);

#endif
