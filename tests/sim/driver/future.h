/* What a driver of tomorrow answers and today's headers do not declare: new names, and newer variants of known ones with
 * another signature. Profile 99.0 only. No lock needed. */
#ifndef SIM_FUTURE_H
#define SIM_FUTURE_H

/* NULL when it adds nothing to what the table knows. */
void *sim_future_address(const char *base, int version);

#endif
