/* What copies need to know of an array. Takes no lock; any thread. */
#ifndef SIM_RUNTIME_ARRAY_H
#define SIM_RUNTIME_ARRAY_H

#include "state.h"

#include <stddef.h>

/* Bytes of one element, all channels. A context must be current. */
cudaError_t rt_array_element(cudaArray_const_t array, size_t *ret_bytes);

/* Format and channels of a description; cudaErrorInvalidChannelDescriptor for one that no array has. And back. */
cudaError_t rt_array_format(const struct cudaChannelFormatDesc *desc, CUDA_ARRAY3D_DESCRIPTOR *ret_descriptor);
struct cudaChannelFormatDesc rt_array_channels(CUarray_format format, unsigned channels);

#endif
