/* The one door to CUDA's headers: types and prototypes, every ABI version by its exact symbol. Nothing of
 * CUDA is linked. Owns nothing. */
#ifndef NXM_CUDA_TYPES_H
#define NXM_CUDA_TYPES_H

#define __CUDA_API_VERSION_INTERNAL 1 /* exact symbols: no renaming macros, old and _ptsz forms declared */
#include <cuda.h>
#include <cudaTypedefs.h>

#endif
