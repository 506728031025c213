/* What a program with a CUDA plugin has done before it first allocates: initialised the driver and made a context
 * current. Owns one primary context for the life of the process. Without a driver it does nothing. */
#ifndef NXMEM_CHECK_CUDA_H
#define NXMEM_CHECK_CUDA_H

#include <stdbool.h>
#include <stdint.h>

/* Whether the device is there. The first call decides which one it is. */
bool cuda_enter(uint32_t device);

/* Whether there is a driver at all; after cuda_enter. */
bool cuda_is_here(void);

/* For each further thread; nothing when cuda_enter found none. */
void cuda_enter_thread(void);

#endif
