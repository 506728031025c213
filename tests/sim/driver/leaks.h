/* What the program never gave back: memory and handles that it made. The contexts, streams and pools that the driver
 * makes by itself are not among it. */
#ifndef SIM_LEAKS_H
#define SIM_LEAKS_H

#include <stdint.h>

/* How many, now. State lock held. */
uint64_t sim_leaks_count(void);
/* Writes them on stderr, by kind. State lock held. */
void sim_leaks_print(void);

#endif
