/* What a pointer is: attributes, singular and plural, and the range it lies in. */
#include "block.h"
#include "context.h"
#include "device.h"
#include "facts.h"
#include "pool.h"
#include "state.h"
#include "vmm.h"

#include <sys/mman.h>
#include <unistd.h>

#include <string.h>

static bool is_host(const struct sim_block *b)
{
    if (b->kind == SIM_BLOCK_ASYNC) return b->pool->host;
    if (b->kind == SIM_BLOCK_MAP) return sim_vmm_is_host(b);
    return b->kind == SIM_BLOCK_HOST || b->kind == SIM_BLOCK_REGISTERED;
}

static CUcontext context_of(const struct sim_block *b)
{
    /* pool memory and maps belong to no context */
    return (CUcontext)b->context;
}

static unsigned long long handle_types(const struct sim_block *b)
{
    if (b->kind == SIM_BLOCK_MAP) return sim_vmm_handle_types(b);
    return b->kind == SIM_BLOCK_ASYNC ? b->pool->handle_types : 0;
}

static bool is_rdma_capable(const struct sim_block *b)
{
    return b->kind == SIM_BLOCK_DEVICE || (b->kind == SIM_BLOCK_MAP && sim_vmm_is_rdma_capable(b));
}

/* What the device of the current context may do, without one the memory's own. */
static int access_flags(const struct sim_block *b)
{
    static const int words[4] = { [CU_MEM_ACCESS_FLAGS_PROT_NONE] = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE,
                                  [CU_MEM_ACCESS_FLAGS_PROT_READ] = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ,
                                  [CU_MEM_ACCESS_FLAGS_PROT_READWRITE] = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE };
    struct sim_context *c;
    const struct sim_device *d = sim_context_current(&c) == CUDA_SUCCESS ? c->device : b->device;
    if (b->kind == SIM_BLOCK_MAP) return words[sim_vmm_access(b, d)];
    bool may = b->kind != SIM_BLOCK_ASYNC || b->pool->access >> d->ordinal & 1;
    return may ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE;
}

/* Writes the attribute of a known pointer. */
static CUresult get(const struct sim_block *b, CUpointer_attribute attribute, uint64_t ptr, void *data)
{
    bool pool = b->kind == SIM_BLOCK_ASYNC;
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: *(CUcontext *)data = context_of(b); break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)data = is_host(b) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: *(CUdeviceptr *)data = ptr; break;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (!is_host(b) && b->kind != SIM_BLOCK_MANAGED) return CUDA_ERROR_INVALID_VALUE;
        *(void **)data = (void *)(uintptr_t)ptr;
        break;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: *(unsigned *)data = b->sync_memops; break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: *(unsigned long long *)data = b->id; break;
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID: *(unsigned long long *)data = b->id; break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: *(unsigned *)data = b->kind == SIM_BLOCK_MANAGED; break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int *)data = b->device->ordinal; break;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE: *(unsigned *)data = b->kind == SIM_BLOCK_DEVICE; break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR: *(CUdeviceptr *)data = b->range.start; break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: *(size_t *)data = b->size; break;
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE: *(size_t *)data = b->range.size; break;
    case CU_POINTER_ATTRIBUTE_MAPPED: *(unsigned *)data = 1; break;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES: *(unsigned long long *)data = handle_types(b); break;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE: *(unsigned *)data = is_rdma_capable(b); break;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: *(int *)data = access_flags(b); break;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: *(CUmemoryPool *)data = pool ? (CUmemoryPool)b->pool : NULL; break;
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE: *(unsigned *)data = 0; break;
    default: return CUDA_ERROR_NOT_SUPPORTED;
    }
    return CUDA_SUCCESS;
}

/* What the plural form says of memory that CUDA does not know. */
static void get_unknown(CUpointer_attribute attribute, void *data)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: memset(data, 0, 8); break;
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS: memset(data, 0, sizeof(CUDA_POINTER_ATTRIBUTE_P2P_TOKENS)); break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int *)data = CU_DEVICE_INVALID; break;
    default: memset(data, 0, 4); break;
    }
}

/* What a pointer names, for a question about it. */
static struct sim_block *block_of(CUdeviceptr ptr)
{
    struct sim_block *b = sim_block_containing(ptr);
    return !b && sim_fact(SIM_FACT_freed_async_visible) ? sim_pool_freed_block(ptr) : b;
}

static bool valid(CUpointer_attribute attribute)
{
    return attribute >= CU_POINTER_ATTRIBUTE_CONTEXT && attribute <= CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE;
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    SIM_ENTER(cuPointerGetAttribute);
    if (!data || !valid(attribute)) return CUDA_ERROR_INVALID_VALUE;
    CUresult result = CUDA_SUCCESS;
    sim_lock();
    struct sim_block *b = block_of(ptr);
    if (b) result = get(b, attribute, ptr, data);
    else if (attribute == CU_POINTER_ATTRIBUTE_MAPPED && sim_vmm_reserved(ptr)) *(unsigned *)data = 0;
    else result = CUDA_ERROR_INVALID_VALUE;
    sim_unlock();
    return result;
}

CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes, void **data, CUdeviceptr ptr)
{
    SIM_ENTER(cuPointerGetAttributes);
    if (!count || !attributes || !data) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++)
        if (!valid(attributes[i]) || !data[i]) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_block *b = block_of(ptr);
    for (unsigned i = 0; i < count; i++)
        if (!b || get(b, attributes[i], ptr, data[i]) != CUDA_SUCCESS) get_unknown(attributes[i], data[i]);
    sim_unlock();
    return CUDA_SUCCESS;
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    SIM_ENTER(cuPointerSetAttribute);
    if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_block *b = sim_block_containing(ptr);
    bool fits = b && (b->kind == SIM_BLOCK_DEVICE || b->kind == SIM_BLOCK_MANAGED || b->kind == SIM_BLOCK_HOST);
    if (fits) b->sync_memops = *(const unsigned *)value != 0;
    sim_unlock();
    return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr ptr)
{
    SIM_ENTER(cuMemGetAddressRange_v2);
    struct sim_context *c;
    sim_lock();
    CUresult result = sim_context_current(&c);
    struct sim_block *b = sim_block_containing(ptr);
    if (result == CUDA_SUCCESS && !b) result = CUDA_ERROR_NOT_FOUND;
    if (result == CUDA_SUCCESS) {
        if (base) *base = b->range.start;
        if (size) *size = b->size;
    }
    sim_unlock();
    return result;
}

/* A descriptor that stands for a range, for other drivers. Which part of the file it is they cannot tell here: it is a
 * handle to hold and to close. */
CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr ptr, size_t size, CUmemRangeHandleType type,
                                       unsigned long long flags)
{
    SIM_ENTER(cuMemGetHandleForAddressRange);
    const uint64_t page = 4096;
    if (!handle || !size || ptr % page || size % page || flags) return CUDA_ERROR_INVALID_VALUE;
    if (type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult result = CUDA_SUCCESS;
    for (uint64_t at = ptr; result == CUDA_SUCCESS && at < ptr + size;) {
        struct sim_block *b = sim_block_containing(at);
        if (!b || (b->kind != SIM_BLOCK_DEVICE && b->kind != SIM_BLOCK_MAP)) result = CUDA_ERROR_INVALID_VALUE;
        else at = b->range.start + b->range.size;
    }
    int fd = result == CUDA_SUCCESS ? memfd_create("simcuda-dma-buf", MFD_CLOEXEC) : -1;
    if (result == CUDA_SUCCESS && fd < 0) result = CUDA_ERROR_OPERATING_SYSTEM;
    if (result == CUDA_SUCCESS) *(int *)handle = fd;
    sim_unlock();
    return result;
}
