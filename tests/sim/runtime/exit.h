/* The end of the runtime: from its finaliser on, calls answer cudaErrorCudartUnloading and reach no driver.
 *
 * Owns one flag, set once. Any thread may ask. */
#ifndef SIM_RUNTIME_EXIT_H
#define SIM_RUNTIME_EXIT_H

#include <stdbool.h>

bool rt_is_unloading(void);

#endif
