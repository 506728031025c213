/* The program's own virtual memory management, three figures kept apart: reserved address space, physical memory, mappings.
 * Owns what is known of handles; any thread; NXM_RANK_OBJECTS inside, never across the driver.
 *
 * Physical memory lives until its last handle *and* its last mapping are gone: releasing the handle right after mapping is
 * the usual order. A handle's value may be given out again once released, so physical memory is named by our own number.
 */
#ifndef NXM_VMM_H
#define NXM_VMM_H

#include <stdint.h>

#include "cuda_types.h"
#include "label.h"

void nxm_vmm_created(CUmemGenericAllocationHandle handle, uint64_t bytes, int device, enum nxm_api api);
void nxm_vmm_imported(CUmemGenericAllocationHandle handle, enum nxm_api api);

/* A handle was given out again for memory mapped at `address`. */
void nxm_vmm_retained(CUmemGenericAllocationHandle handle, uint64_t address);

/* Around a release: the handle's use is taken before the driver may give its value out again, and put back on failure. */
uint64_t nxm_vmm_release_begin(CUmemGenericAllocationHandle handle); /* the memory's number, 0 unknown */
void nxm_vmm_release_end(CUmemGenericAllocationHandle handle, uint64_t number, int released);

void nxm_vmm_mapped(uint64_t address, uint64_t bytes, CUmemGenericAllocationHandle handle, enum nxm_api api);
void nxm_vmm_unmapped(uint64_t address, uint64_t bytes); /* all maps inside the span */

#endif
