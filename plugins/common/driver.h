/* Device memory by the driver's own calls: each request becomes the call the program made, with its stream
 * and its pool.
 *
 * Owns one reference to the driver's library, from the first successful open to the end of the process: a
 * driver is never closed under contexts that may still live. Any thread; its lock guards the table while
 * it is being filled and is not held while the loader or the driver runs. Never initialises CUDA, makes no
 * context, and never changes which one is current.
 */
#ifndef NXP_DRIVER_H
#define NXP_DRIVER_H

#include <stdint.h>

#include "nxmem_cuda.h"
#include "nxmem_memory_abi.h"
#include "plugins/common/allocator.h"

/* Finds the driver: the one the process has loaded, else the system's. DEVICE_ERROR when there is none,
 * WRONG_DEVICE when the driver counts its devices and this is not among them. */
NxmemStatus nxp_driver_open(NxmemDeviceId device);

/* A function of the driver's by its exact symbol, NULL when it has none. After nxp_driver_open said OK. */
void nxp_driver_look_up(const char *symbol, void *ret_function);
/* One call of the driver in words: what was called and what it answered (a CUresult, not success). */
NxmemStatus nxp_driver_status(const char *call, unsigned result);

/* OK with *ret_address, aligned as asked; bytes 0 gives one byte. Otherwise nothing is left behind. */
NxmemStatus nxp_driver_allocate(const NxmemCudaOrder *order, uint64_t bytes, uint64_t align, uint64_t *ret_address);

/* `order` NULL: the plain slot, where a driver that has shut down, or knows no such memory any more, counts as done. With an order the program itself
 * asked, and gets the driver's answer. A failure leaves the memory as it was. */
NxmemStatus nxp_driver_release(const NxmemCudaOrder *order, uint64_t address);

#endif
