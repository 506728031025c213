/* What a pointer is: the program's allocation, as it would be natively, whatever memory a mechanism took it from. The driver
 * answers for its own blocks, and for those that a mechanism got from it and hands out as they are. */
#include <stdalign.h>

#include "core/log.h"
#include "hook.h"
#include "memops.h"
#include "owned.h"
#include "pool.h"
#include "scope.h"

/* Memory that the driver never heard of: asked about it, it says what it says of unknown memory, or why it answers nobody. */
static alignas(4096) const unsigned char nowhere[4096];
#define NOWHERE ((CUdeviceptr)(uintptr_t)nowhere)

#define OUR_IDS (UINT64_C(1) << 63) /* no driver counts that far */

enum whose {
    DRIVERS, /* the driver's to answer for */
    OURS,    /* a live block of a mechanism, which is no driver allocation by itself */
    NOBODYS, /* a mechanism's memory, but no live block of the program's: natively nothing would be there */
};

static uint64_t traits_of(const struct nxm_block *block)
{
    return ((const struct nxm_scope *)(uintptr_t)block->tag)->companion.vtable.traits;
}

static enum whose whose_is(enum nxm_mode mode, CUdeviceptr address, struct nxm_block *ret_block)
{
    if (mode != NXM_MODE_SERVE)
        return DRIVERS;
    if (nxm_blocks_containing(nxm_table(NXM_TABLE_MEMORY), address, ret_block) != NXM_OK)
        return nxm_owned_contains(address) ? NOBODYS : DRIVERS;
    if (!ret_block->allocator)
        return DRIVERS;
    if (ret_block->state != NXM_BLOCK_LIVE) /* freed, whoever still has it */
        return NOBODYS;
    return traits_of(ret_block) & NXMEM_CUDA_TRAIT_BASE_IS_DRIVER_ALLOCATION ? DRIVERS : OURS;
}

static bool is_synchronous(const struct nxm_block *block)
{
    return block->context != 0;
}

/* The driver is well, and its refusal means the address alone. */
static bool is_about_the_address(CUresult result)
{
    return result == CUDA_SUCCESS || result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_NOT_FOUND ||
           result == CUDA_ERROR_NOT_SUPPORTED;
}

/* --- the range ------------------------------------------------------------------------------------------------- */

CUresult hook_cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr address)
{
    NXM_NEEDS(cuMemGetAddressRange_v2);
    enum nxm_mode mode = nxm_enter(NXM_CALLER, false);
    struct nxm_block block;
    enum whose whose = whose_is(mode, address, &block);
    CUresult result = nxm_real.cuMemGetAddressRange_v2(whose == OURS ? NULL : base, whose == OURS ? NULL : size,
                                                       whose == DRIVERS ? address : NOWHERE);

    if (whose == OURS && is_about_the_address(result)) {
        if (base)
            *base = block.address;
        if (size)
            *size = block.bytes;
        result = CUDA_SUCCESS;
    }
    nxm_leave(mode);
    return result;
}

/* --- attributes -------------------------------------------------------------------------------------------------- */

/* What the current context's device may do with memory of the default pool is the pool's to say. */
static int access_flags(const struct nxm_block *block)
{
    CUmemAccess_flags access = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    CUmemLocation here = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = block->device };
    CUmemoryPool pool = is_synchronous(block) ? NULL : nxm_pool_default(block->device);

    if (pool && nxm_real.cuMemPoolGetAccess && nxm_real.cuCtxGetDevice &&
        nxm_real.cuCtxGetDevice(&here.id) == CUDA_SUCCESS)
        nxm_real.cuMemPoolGetAccess(&access, pool, &here);
    return access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE
           : access == CU_MEM_ACCESS_FLAGS_PROT_READ    ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ
                                                        : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE;
}

static bool has_trait(const struct nxm_block *block, uint64_t trait)
{
    return is_synchronous(block) && (traits_of(block) & trait);
}

static uint64_t mapping_bytes(const struct nxm_block *block)
{
    const uint64_t unit = 512;

    return (block->bytes + unit - 1) / unit * unit;
}

/* false: natively refused for such memory, and nothing is written. */
static bool answer(const struct nxm_block *block, CUpointer_attribute attribute, CUdeviceptr address, void *ret_value)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)ret_value = (CUcontext)(uintptr_t)block->context;
        return true;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)ret_value = CU_MEMORYTYPE_DEVICE;
        return true;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *(CUdeviceptr *)ret_value = address;
        return true;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        *(unsigned *)ret_value = nxm_memops_are_synchronous(block);
        return true;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        *(unsigned long long *)ret_value = OUR_IDS | block->id;
        return true;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
        *(unsigned *)ret_value = 0;
        return true;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)ret_value = block->device;
        return true;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        *(unsigned *)ret_value = has_trait(block, NXMEM_CUDA_TRAIT_LEGACY_IPC);
        return true;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        *(CUdeviceptr *)ret_value = block->address;
        return true;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)ret_value = block->bytes;
        return true;
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        *(size_t *)ret_value = mapping_bytes(block);
        return true;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *(unsigned *)ret_value = 1;
        return true;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        *(unsigned long long *)ret_value = 0;
        return true;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        *(unsigned *)ret_value = has_trait(block, NXMEM_CUDA_TRAIT_RDMA);
        return true;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        *(int *)ret_value = access_flags(block);
        return true;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *(CUmemoryPool *)ret_value = is_synchronous(block) ? NULL : nxm_pool_default(block->device);
        return true;
    default:
        return false;
    }
}

/* What answers for an attribute beyond those above; a later driver may know more of them. */
static bool is_answered(CUpointer_attribute attribute)
{
    return attribute >= CU_POINTER_ATTRIBUTE_CONTEXT && attribute <= CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE &&
           attribute != CU_POINTER_ATTRIBUTE_P2P_TOKENS;
}

CUresult hook_cuPointerGetAttribute(void *value, CUpointer_attribute attribute, CUdeviceptr address)
{
    NXM_NEEDS(cuPointerGetAttribute);
    enum nxm_mode mode = nxm_enter(NXM_CALLER, false);
    struct nxm_block block;
    enum whose whose = value && is_answered(attribute) ? whose_is(mode, address, &block) : DRIVERS;
    CUresult result;

    if (whose == OURS) {
        unsigned long long unused[4]; /* as large as any attribute's value */
        result = nxm_real.cuPointerGetAttribute(unused, attribute, NOWHERE);
        if (is_about_the_address(result))
            result = answer(&block, attribute, address, value) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    } else {
        result = nxm_real.cuPointerGetAttribute(value, attribute, whose == DRIVERS ? address : NOWHERE);
    }
    nxm_leave(mode);
    return result;
}

/* The driver fills in what it says of unknown memory, or refuses the question as a whole; then each answer that is ours. */
CUresult hook_cuPointerGetAttributes(unsigned count, CUpointer_attribute *attributes, void **values, CUdeviceptr address)
{
    NXM_NEEDS(cuPointerGetAttributes);
    enum nxm_mode mode = nxm_enter(NXM_CALLER, false);
    struct nxm_block block;
    enum whose whose = whose_is(mode, address, &block);
    CUresult result = nxm_real.cuPointerGetAttributes(count, attributes, values, whose == DRIVERS ? address : NOWHERE);

    for (unsigned i = 0; whose == OURS && result == CUDA_SUCCESS && i < count; i++)
        answer(&block, attributes[i], address, values[i]);
    nxm_leave(mode);
    return result;
}

/* A segment that several blocks share would carry the setting to neighbours: it is kept for the block, and reaches the driver
 * only where remote direct access, whose business it is, is promised. */
CUresult hook_cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr address)
{
    NXM_NEEDS(cuPointerSetAttribute);
    enum nxm_mode mode = nxm_enter(NXM_CALLER, false);
    struct nxm_block block;
    enum whose whose = value && attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS ? whose_is(mode, address, &block) : DRIVERS;
    bool wanted = whose == OURS && is_synchronous(&block);
    bool reaches = wanted && *(const unsigned *)value && (traits_of(&block) & NXMEM_CUDA_TRAIT_RDMA);
    CUresult result = nxm_real.cuPointerSetAttribute(value, attribute, whose == DRIVERS || reaches ? address : NOWHERE);

    if (wanted && (reaches ? result == CUDA_SUCCESS : is_about_the_address(result)))
        result = nxm_memops_set(&block, *(const unsigned *)value != 0) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    nxm_leave(mode);
    return result;
}

/* --- handles for other drivers ------------------------------------------------------------------------------------ */

/* A mechanism that does not promise it fails as memory does of which no handle can be had, with one hint. */
CUresult hook_cuMemGetHandleForAddressRange(void *handle, CUdeviceptr address, size_t size, CUmemRangeHandleType type,
                                            unsigned long long flags)
{
    NXM_NEEDS(cuMemGetHandleForAddressRange);
    enum nxm_mode mode = nxm_enter(NXM_CALLER, false);
    struct nxm_block block;
    enum whose whose = whose_is(mode, address, &block);
    bool refused = whose == NOBODYS || (whose == OURS && !(traits_of(&block) & NXMEM_CUDA_TRAIT_DMABUF));
    CUresult result = nxm_real.cuMemGetHandleForAddressRange(handle, refused ? NOWHERE : address,
                                                             refused && size ? sizeof nowhere : size, type, flags);

    if (whose == OURS && refused && is_synchronous(&block)) {
        static int once;
        nxm_log_once(&once, "cuMemGetHandleForAddressRange: no handle can be had for memory of mechanism %s; set "
                     "NXMEM_PLUGIN=direct for programs that share memory with other drivers", nxm_scope_mechanism());
    }
    nxm_leave(mode);
    return result;
}
