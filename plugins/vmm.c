/* vmm: each block is physical memory of its own, mapped into a range of its own (cuMemCreate, cuMemMap), which devices that the program
 * lets at it can reach (cuMemSetAccess). Whole pages: small blocks take 2 MiB. Holds nothing beside its blocks.
 *
 * Unmapping looks at no stream and, unlike cuMemFree, waits for none: a release comes when the work before it has passed, which is the
 * host's to see (no enqueue_release_on), and never waits itself.
 */
#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "nxmem_cuda.h"
#include "nxmem_memory_abi.h"
#include "plugins/common/driver.h"
#include "plugins/common/exports.h"
#include "plugins/common/factory.h"
#include "plugins/common/negotiate.h"
#include "plugins/common/status.h"
#include "plugins/common/tallies.h"

enum { DEVICES = 16, PEERS = 64 };

/* Written by open, the same by whoever comes first, and read by those who opened. */
static struct {
    __typeof__(cuMemGetAllocationGranularity) *granularity;
    __typeof__(cuMemAddressReserve) *reserve;
    __typeof__(cuMemAddressFree) *unreserve;
    __typeof__(cuMemCreate) *create;
    __typeof__(cuMemRelease) *release;
    __typeof__(cuMemMap) *map;
    __typeof__(cuMemUnmap) *unmap;
    __typeof__(cuMemSetAccess) *set_access;
    __typeof__(cuDeviceGetAttribute) *attribute;
} driver;
static bool found;
static pthread_once_t looked_up = PTHREAD_ONCE_INIT;

struct vmm {
    struct nxp_allocator base;
    /* Who maps and unmaps reads it, who changes access writes it: a block is mapped, with the access of then, or it is not. Held over
     * the driver's mapping calls, which run nobody's code. */
    pthread_rwlock_t mapping;
    uint64_t peers; /* devices beside its own that reach this memory; under `mapping` */
};

static void look_up(void)
{
    nxp_driver_look_up("cuMemGetAllocationGranularity", &driver.granularity);
    nxp_driver_look_up("cuMemAddressReserve", &driver.reserve);
    nxp_driver_look_up("cuMemAddressFree", &driver.unreserve);
    nxp_driver_look_up("cuMemCreate", &driver.create);
    nxp_driver_look_up("cuMemRelease", &driver.release);
    nxp_driver_look_up("cuMemMap", &driver.map);
    nxp_driver_look_up("cuMemUnmap", &driver.unmap);
    nxp_driver_look_up("cuMemSetAccess", &driver.set_access);
    nxp_driver_look_up("cuDeviceGetAttribute", &driver.attribute);
    found = driver.granularity && driver.reserve && driver.unreserve && driver.create && driver.release && driver.map &&
            driver.unmap && driver.set_access && driver.attribute;
}

static NxmemStatus vmm_open(NxmemDeviceId device)
{
    NxmemStatus status = nxp_driver_open(device);

    if (status.code != NXMEM_STATUS_OK)
        return status;
    pthread_once(&looked_up, look_up);
    if (!found)
        return nxp_status(NXMEM_STATUS_DEVICE_ERROR, "this CUDA driver has no virtual memory management (10.2 and later have)");
    return nxp_ok();
}

static bool can(const struct vmm *vmm, CUdevice_attribute what)
{
    int yes = 0;

    return driver.attribute(&yes, what, (CUdevice)vmm->base.vtable.device.index) == CUDA_SUCCESS && yes;
}

static CUmemAllocationProp properties_of(const struct vmm *vmm)
{
    CUmemAllocationProp properties;

    memset(&properties, 0, sizeof properties);
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = (int)vmm->base.vtable.device.index;
    /* Where the machine can. It is not claimed as a trait: CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, which goes with it, the driver refuses
     * for mapped memory. */
    properties.allocFlags.gpuDirectRDMACapable = can(vmm, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
    return properties;
}

/* --- access -------------------------------------------------------------------------------------------------------- */

static NxmemStatus set_access(CUdeviceptr address, size_t bytes, int device, bool reaches)
{
    CUmemAccessDesc access = { .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device },
                               .flags = reaches ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE };
    CUresult result = driver.set_access(address, bytes, &access, 1);

    return result == CUDA_SUCCESS ? nxp_ok() : nxp_driver_status("cuMemSetAccess", result);
}

/* Its own device, and every peer of now. */
static NxmemStatus open_to_all(const struct vmm *vmm, CUdeviceptr address, size_t bytes)
{
    NxmemStatus status = set_access(address, bytes, (int)vmm->base.vtable.device.index, true);

    for (int peer = 0; peer < PEERS && status.code == NXMEM_STATUS_OK; peer++) {
        if (vmm->peers >> peer & 1)
            status = set_access(address, bytes, peer, true);
    }
    return status;
}

struct span {
    CUdeviceptr address;
    size_t bytes;
};

/* The blocks that are mapped, in pages of the caller's; NULL with *ret_count 0: none, with more: no memory. */
static struct span *mapped_spans(struct vmm *vmm, size_t *ret_count)
{
    struct span *spans = NULL;

    pthread_mutex_lock(&vmm->base.lock);
    *ret_count = vmm->base.live.count;
    if (*ret_count != 0)
        spans = nxp_pages_map(*ret_count * sizeof *spans);
    if (spans != NULL) {
        size_t count = 0;

        for (size_t i = 0; i < vmm->base.live.bucket_count; i++) {
            for (const struct nxp_block *block = vmm->base.live.buckets[i]; block != NULL; block = block->chain) {
                if (block->backing != NULL)
                    spans[count++] = (struct span){ (uintptr_t)block->ptr, block->committed };
            }
        }
    }
    pthread_mutex_unlock(&vmm->base.lock);
    return spans;
}

static NxmemStatus change_access(struct vmm *vmm, uint32_t peer, bool enabled)
{
    NxmemStatus status = nxp_ok();
    size_t count = 0, done = 0;
    struct span *spans = mapped_spans(vmm, &count);

    if (spans == NULL && count != 0)
        return nxp_status(NXMEM_STATUS_OUT_OF_MEMORY, "no memory to list the blocks");
    for (; done < count && spans[done].bytes != 0 && status.code == NXMEM_STATUS_OK; done++)
        status = set_access(spans[done].address, spans[done].bytes, (int)peer, enabled);
    if (status.code != NXMEM_STATUS_OK) {
        while (done-- > 0) /* the one that failed among them: it has what it had, or gets it back */
            set_access(spans[done].address, spans[done].bytes, (int)peer, !enabled);
    } else {
        vmm->peers = enabled ? vmm->peers | UINT64_C(1) << peer : vmm->peers & ~(UINT64_C(1) << peer);
    }
    if (spans != NULL)
        nxp_pages_unmap(spans, count * sizeof *spans);
    return status;
}

static NxmemStatus vmm_set_peer_access(void *ctx, uint32_t peer, uint32_t enabled)
{
    struct vmm *vmm = ctx;
    NxmemStatus status;

    if (peer >= PEERS || peer == vmm->base.vtable.device.index || enabled > 1)
        return nxp_status(NXMEM_STATUS_INVALID_ARGUMENT, "no such peer, or neither on nor off");
    pthread_rwlock_wrlock(&vmm->mapping);
    status = change_access(vmm, peer, enabled != 0);
    pthread_rwlock_unlock(&vmm->mapping);
    return status;
}

/* --- blocks ---------------------------------------------------------------------------------------------------------- */

static NxmemStatus failed(const char *call, CUresult result)
{
    return nxp_driver_status(call, result);
}

/* Maps new physical memory at an address that is reserved. The mapping alone keeps it then: no handle is left. */
static NxmemStatus back(const struct vmm *vmm, CUdeviceptr address, size_t bytes, const CUmemAllocationProp *properties)
{
    CUmemGenericAllocationHandle handle;
    CUresult result = driver.create(&handle, bytes, properties, 0);
    NxmemStatus status;

    if (result != CUDA_SUCCESS)
        return failed("cuMemCreate", result);
    result = driver.map(address, bytes, 0, handle, 0);
    driver.release(handle);
    if (result != CUDA_SUCCESS)
        return failed("cuMemMap", result);
    status = open_to_all(vmm, address, bytes);
    if (status.code != NXMEM_STATUS_OK)
        driver.unmap(address, bytes);
    return status;
}

static NxmemStatus place(struct vmm *vmm, struct nxp_block *block)
{
    CUmemAllocationProp properties = properties_of(vmm);
    size_t unit = 0, bytes;
    CUdeviceptr address = 0;
    CUresult result = driver.granularity(&unit, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    NxmemStatus status;

    if (result != CUDA_SUCCESS || unit == 0)
        return failed("cuMemGetAllocationGranularity", result);
    if (block->bytes > UINT64_MAX - unit)
        return nxp_status(NXMEM_STATUS_OUT_OF_MEMORY, "more than an address space holds");
    bytes = ((block->bytes != 0 ? block->bytes : 1) + unit - 1) / unit * unit;
    result = driver.reserve(&address, bytes, block->align > unit ? block->align : 0, 0, 0);
    if (result != CUDA_SUCCESS)
        return failed("cuMemAddressReserve", result);
    status = address % block->align == 0 ? back(vmm, address, bytes, &properties)
                                         : nxp_status(NXMEM_STATUS_INVALID_ARGUMENT, "no range is aligned that far");
    if (status.code != NXMEM_STATUS_OK) {
        driver.unreserve(address, bytes);
        return status;
    }
    pthread_mutex_lock(&vmm->base.lock); /* whoever lists the mapped blocks sees all of it, or none */
    block->committed = bytes;
    block->ptr = (uint8_t *)(uintptr_t)address;
    block->backing = block;
    pthread_mutex_unlock(&vmm->base.lock);
    return status;
}

static NxmemStatus vmm_allocate(struct nxp_allocator *allocator, const NxmemCudaOrder *order, struct nxp_block *block)
{
    struct vmm *vmm = (struct vmm *)allocator;
    NxmemStatus status;

    (void)order;
    pthread_rwlock_rdlock(&vmm->mapping);
    status = place(vmm, block);
    pthread_rwlock_unlock(&vmm->mapping);
    return status;
}

static NxmemStatus unplace(struct vmm *vmm, struct nxp_block *block)
{
    CUdeviceptr address = (uintptr_t)block->ptr;
    CUresult result = driver.unmap(address, block->committed);

    if (result != CUDA_SUCCESS && result != CUDA_ERROR_DEINITIALIZED)
        return failed("cuMemUnmap", result);
    pthread_mutex_lock(&vmm->base.lock);
    block->backing = NULL;
    pthread_mutex_unlock(&vmm->base.lock);
    driver.unreserve(address, block->committed); /* the memory is gone; a range that stays costs nothing */
    return nxp_ok();
}

static NxmemStatus vmm_release(struct nxp_allocator *allocator, const NxmemCudaOrder *order, struct nxp_block *block)
{
    struct vmm *vmm = (struct vmm *)allocator;
    NxmemStatus status;

    (void)order;
    pthread_rwlock_rdlock(&vmm->mapping);
    status = unplace(vmm, block);
    pthread_rwlock_unlock(&vmm->mapping);
    return status;
}

static void vmm_opened(struct nxp_allocator *allocator)
{
    struct vmm *vmm = (struct vmm *)allocator;

    /* Fair to writers: a peer's access must not wait for ever behind threads that go on allocating. By the initialiser, for the
     * functions that set an attribute are bound to newer C libraries. */
    vmm->mapping = (pthread_rwlock_t)PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
    allocator->companion.allocate_on = NULL; /* no stream is asked for memory, nor told of its end */
    allocator->companion.enqueue_release_on = NULL;
    allocator->companion.set_peer_access = vmm_set_peer_access;
}

static void vmm_closing(struct nxp_allocator *allocator)
{
    pthread_rwlock_destroy(&((struct vmm *)allocator)->mapping);
}

static const struct nxp_backend vmm_backend = {
    .capabilities =
        NXMEM_CAPABILITY_ALLOCATOR | NXMEM_CAPABILITY_DEFERRED_RELEASE | NXMEM_CAPABILITY_STRUCTURED_RELEASE,
    .traits = NXMEM_CUDA_TRAIT_RELEASE_NEVER_WAITS,
    .queues = false,
    .companion = true,
    .open = vmm_open,
    .opened = vmm_opened,
    .allocate = vmm_allocate,
    .release = vmm_release,
    .closing = vmm_closing,
    .object_bytes = sizeof(struct vmm),
};

/* --- the plugin -------------------------------------------------------------------------------------------------------- */

static struct nxp_mechanism mechanisms[DEVICES];
static NxmemAllocatorFactoryVtable table[DEVICES];
static pthread_once_t filled = PTHREAD_ONCE_INIT;

static void fill(void)
{
    for (uint32_t i = 0; i < DEVICES; i++)
        mechanisms[i] = (struct nxp_mechanism){"vmm", {NXMEM_TIER_DEVICE, i}, &vmm_backend};
    nxp_factories_fill(mechanisms, table, DEVICES);
}

NxmemStatus NxmemNegotiate(const NxmemNegotiateRequest *request, NxmemNegotiateResponse *response)
{
    return nxp_negotiate(vmm_backend.capabilities, request, response);
}

NxmemStatus NxmemCreateAllocatorFactories(const NxmemAllocatorFactoryVtable **factories, uint64_t max_factories,
                                          uint64_t *count)
{
    pthread_once(&filled, fill);
    return nxp_factories_publish(table, DEVICES, factories, max_factories, count);
}

NxmemStatus NxmemQueryUnloadReadiness(NxmemUnloadReport *report)
{
    return nxp_unload_report(report);
}

NxmemStatus NxmemQueryCuda(const NxmemAllocatorVtable *allocator, const NxmemCudaVtable **companion)
{
    return nxp_query_cuda(allocator, companion);
}
