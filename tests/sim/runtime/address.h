/* Pointers as programs hold them and addresses as the driver counts them. */
#ifndef SIM_RUNTIME_ADDRESS_H
#define SIM_RUNTIME_ADDRESS_H

#include <cuda.h>
#include <stdint.h>

static inline CUdeviceptr rt_address(const void *pointer)
{
    return (CUdeviceptr)(uintptr_t)pointer;
}

static inline void *rt_pointer(CUdeviceptr address)
{
    return (void *)(uintptr_t)address;
}

#endif
