/* Hints about managed memory. They take the state lock themselves. */
#ifndef SIM_MANAGED_H
#define SIM_MANAGED_H

#include "api.h"

/* A range inside one managed allocation? */
CUresult sim_managed_check(CUdeviceptr, size_t bytes);
CUresult sim_managed_check_location(const CUmemLocation *);
/* In stream order, and judged there: the range is named. A location is remembered as the last one prefetched to. */
CUresult sim_managed_hint(CUdeviceptr, size_t bytes, const CUmemLocation *, CUstream, enum sim_default, enum sim_fn);

#endif
