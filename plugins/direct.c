/* direct: the mechanism that adds nothing. Each request is the driver call the program made, so what the
 * program sees (codes, waiting, stream order, IPC) is what it would see without a plugin. Owns no memory
 * and caches none; what it holds are records of what the driver gave out. */
#include <pthread.h>

#include "nxmem_cuda.h"
#include "nxmem_memory_abi.h"
#include "plugins/common/driver.h"
#include "plugins/common/exports.h"
#include "plugins/common/factory.h"
#include "plugins/common/negotiate.h"
#include "plugins/common/tallies.h"

static NxmemStatus direct_allocate(struct nxp_allocator *allocator, const NxmemCudaOrder *order,
                                   struct nxp_block *block)
{
    uint64_t address = 0;
    NxmemStatus status = nxp_driver_allocate(order, block->bytes, block->align, &address);

    (void)allocator;
    block->ptr = (uint8_t *)(uintptr_t)address;
    return status;
}

static NxmemStatus direct_release(struct nxp_allocator *allocator, const NxmemCudaOrder *order,
                                  struct nxp_block *block)
{
    (void)allocator;
    return nxp_driver_release(order, (uintptr_t)block->ptr);
}

/* Deferred release is claimed because the companion's enqueue_release_on is one; it ends inside the call,
 * for the driver itself keeps the order. */
static const struct nxp_backend direct = {
    .capabilities =
        NXMEM_CAPABILITY_ALLOCATOR | NXMEM_CAPABILITY_DEFERRED_RELEASE | NXMEM_CAPABILITY_STRUCTURED_RELEASE,
    .traits = NXMEM_CUDA_TRAIT_LEGACY_IPC | NXMEM_CUDA_TRAIT_RDMA | NXMEM_CUDA_TRAIT_DMABUF |
              NXMEM_CUDA_TRAIT_BASE_IS_DRIVER_ALLOCATION | NXMEM_CUDA_TRAIT_RELEASE_WAITS_LIKE_DRIVER,
    .queues = false,
    .companion = true,
    .open = nxp_driver_open,
    .allocate = direct_allocate,
    .release = direct_release,
};

/* How many devices there are is not known before the driver is initialised, and asking may not initialise
 * it: a factory for each that a machine may have, judged when it is opened. */
enum { DEVICES = 16 };

static struct nxp_mechanism mechanisms[DEVICES];
static NxmemAllocatorFactoryVtable table[DEVICES];
static pthread_once_t filled = PTHREAD_ONCE_INIT;

static void fill(void)
{
    for (uint32_t i = 0; i < DEVICES; i++)
        mechanisms[i] = (struct nxp_mechanism){"direct", {NXMEM_TIER_DEVICE, i}, &direct};
    nxp_factories_fill(mechanisms, table, DEVICES);
}

NxmemStatus NxmemNegotiate(const NxmemNegotiateRequest *request, NxmemNegotiateResponse *response)
{
    return nxp_negotiate(direct.capabilities, request, response);
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
