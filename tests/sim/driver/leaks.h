/* What the program never gave back: memory and handles that it made. The contexts, streams and pools that the driver
 * makes by itself are not among it. */
#ifndef SIM_LEAKS_H
#define SIM_LEAKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How many, now. State lock held. */
uint64_t sim_leaks_count(void);
/* A line of the list: for each kind how many, then the oldest few with the calls that made them; false past the end. State
 * lock held. */
bool sim_leaks_line(size_t index, char *ret_text, size_t room);

#endif
