/* What compiled programs register before main: fat binaries, their kernels by host stub, their variables by host shadow.
 *
 * Registration touches no driver. A fat binary becomes a driver library, and a host stub a kernel, at first use; both
 * live until the fat binary is unregistered. One mutex guards the tables and is not held while the driver runs. */
#ifndef SIM_RUNTIME_REGISTRY_H
#define SIM_RUNTIME_REGISTRY_H

#include "state.h"

/* The kernel of a host stub, or `symbol` itself where it already is a kernel that this runtime gave out.
 * cudaErrorInvalidDeviceFunction otherwise. A context need not be current. */
cudaError_t rt_kernel_find(const void *symbol, CUkernel *ret_kernel);

/* The host stub of a kernel; the kernel itself where it has none. */
void *rt_kernel_symbol(const void *kernel);

/* The same as a function of the current context. */
cudaError_t rt_function_find(const void *symbol, CUfunction *ret_function);

#endif
