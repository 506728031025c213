/* The one door to CUDA's headers: types and prototypes, every ABI version by its exact symbol. Nothing of
 * CUDA is linked. Owns nothing. */
#ifndef NXM_CUDA_TYPES_H
#define NXM_CUDA_TYPES_H

#define __CUDA_API_VERSION_INTERNAL 1 /* exact symbols: no renaming macros, old and _ptsz forms declared */
#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

/* The two arities of one function: the headers declare only the newer. */
typedef CUresult cuGetProcAddress_v11030(const char *symbol, void **pfn, int version, cuuint64_t flags);
typedef CUresult cuGetProcAddress_v12000(const char *symbol, void **pfn, int version, cuuint64_t flags,
                                         CUdriverProcAddressQueryResult *status);

#endif
