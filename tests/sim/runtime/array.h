/* What copies need to know of an array. Takes no lock; any thread. */
#ifndef SIM_RUNTIME_ARRAY_H
#define SIM_RUNTIME_ARRAY_H

#include "state.h"

#include <stddef.h>

/* Bytes of one element, all channels. A context must be current. */
cudaError_t rt_array_element(cudaArray_const_t array, size_t *ret_bytes);

#endif
