/* Prefix reads of what a plugin published (nxmem spec section 6). Owns nothing; any thread.
 *
 * Each function copies min(struct_size, own sizeof) bytes into the caller's zero-filled copy and never
 * looks at the plugin's memory again. NxmemStatus.code 0, or the code of section 6.
 */
#ifndef NXM_PREFIX_H
#define NXM_PREFIX_H

#include <stdint.h>

#include "nxmem_memory_abi.h"

NxmemStatus nxm_prefix_read_allocator(const NxmemAllocatorVtable *source, uint32_t ceiling,
                                      NxmemAllocatorVtable *ret_copy);
/* For finding `release` in a vtable already refused; only that slot may be called on the result. */
NxmemStatus nxm_prefix_read_allocator_unvalidated(const NxmemAllocatorVtable *source, uint32_t ceiling,
                                                  NxmemAllocatorVtable *ret_copy);
NxmemStatus nxm_prefix_read_virtual_backing(const NxmemVirtualBackingVtable *source, uint32_t ceiling,
                                            uint64_t mechanism_id, NxmemVirtualBackingVtable *ret_copy);
NxmemStatus nxm_prefix_read_shared_mapping(const NxmemSharedMappingVtable *source, uint32_t ceiling,
                                           uint64_t mechanism_id, NxmemSharedMappingVtable *ret_copy);
NxmemStatus nxm_prefix_read_factory(const NxmemAllocatorFactoryVtable *source, uint32_t ceiling,
                                    NxmemAllocatorFactoryVtable *ret_copy);

/* The common part, for any struct that opens with u32 struct_size (companions use it): null, alignment 8,
 * floor, bounded copy, zero tail. */
NxmemStatus nxm_prefix_copy(const void *source, uint32_t floor, void *ret_copy, uint32_t copy_size);

/* For an out-struct that the plugin filled in our own buffer of `size` bytes: zeroes what its returned
 * struct_size does not claim (0 and more than `size` claim everything), and returns the bytes claimed. */
void nxm_prefix_clear_behind(void *written, uint32_t claimed, uint32_t size);
static inline uint32_t nxm_prefix_trim(void *written, uint32_t size)
{
    uint32_t claimed = *(const uint32_t *)written;

    if (claimed == 0 || claimed > size)
        return size;
    if (claimed != size)
        nxm_prefix_clear_behind(written, claimed, size);
    return claimed;
}

#endif
