/* host: ordinary memory, and the plainest mechanism a host can meet: no CUDA companion, releases that wait
 * for a drain. It serves tier HOST. NXMEM_HOST_AS_DEVICE=1 makes it serve tier DEVICE instead, which only a
 * simulated device can use: a kernel faults on this memory.
 *
 * NXMEM_HOST_LIMIT=<bytes> is how much it gives out before it reports out of memory. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "nxmem_cuda.h"
#include "nxmem_memory_abi.h"
#include "plugins/common/exports.h"
#include "plugins/common/factory.h"
#include "plugins/common/negotiate.h"
#include "plugins/common/status.h"
#include "plugins/common/tallies.h"

enum {
    DEVICES = 16,
    POISON = 0xDB, /* freed memory, so that a use after the release shows */
};

/* Beyond what an address can reach; asking libc would be a waste, and a sanitizer stops there. */
static const uint64_t address_limit = UINT64_C(1) << 47;

static uint64_t limit = UINT64_MAX; /* written once, by fill */
static bool limit_unreadable;
static atomic_uint_fast64_t given_out;

static bool charge(uint64_t bytes)
{
    uint_fast64_t before = atomic_load_explicit(&given_out, memory_order_relaxed);

    do {
        if (bytes > limit || before > limit - bytes)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&given_out, &before, before + bytes, memory_order_relaxed,
                                                    memory_order_relaxed));
    return true;
}

static void refund(uint64_t bytes)
{
    atomic_fetch_sub_explicit(&given_out, bytes, memory_order_relaxed);
}

static NxmemStatus host_open(NxmemDeviceId device)
{
    (void)device;
    if (limit_unreadable)
        return nxp_status(NXMEM_STATUS_INVALID_ARGUMENT, "NXMEM_HOST_LIMIT is not a number of bytes");
    return nxp_ok();
}

static NxmemStatus host_allocate(struct nxp_allocator *allocator, const NxmemCudaOrder *order,
                                 struct nxp_block *block)
{
    size_t align = block->align > sizeof(void *) ? block->align : sizeof(void *);
    void *memory = NULL;

    (void)order;
    if (block->bytes > address_limit || align > address_limit)
        return nxp_status(NXMEM_STATUS_OUT_OF_MEMORY, "more than an address space holds");
    if (!charge(block->bytes)) {
        /* Asked once: a host that could not give enough will not the second time. */
        nxp_allocator_request_reclaim(allocator, block->bytes);
        if (!charge(block->bytes))
            return nxp_status(NXMEM_STATUS_OUT_OF_MEMORY, "NXMEM_HOST_LIMIT is reached");
    }
    if (posix_memalign(&memory, align, block->bytes != 0 ? block->bytes : 1) != 0) {
        refund(block->bytes);
        return nxp_status(NXMEM_STATUS_OUT_OF_MEMORY, "the system has no memory of this size");
    }
    block->ptr = memory;
    return nxp_ok();
}

static NxmemStatus host_release(struct nxp_allocator *allocator, const NxmemCudaOrder *order,
                                struct nxp_block *block)
{
    (void)allocator;
    (void)order;
    memset(block->ptr, POISON, block->bytes);
    /* The compiler knows that nobody may read what is freed, and would drop the stores. */
    __asm__ __volatile__("" : : "r"(block->ptr) : "memory");
    free(block->ptr);
    refund(block->bytes);
    return nxp_ok();
}

static const struct nxp_backend host = {
    .capabilities =
        NXMEM_CAPABILITY_ALLOCATOR | NXMEM_CAPABILITY_DEFERRED_RELEASE | NXMEM_CAPABILITY_STRUCTURED_RELEASE,
    .queues = true,
    .companion = false,
    .open = host_open,
    .allocate = host_allocate,
    .release = host_release,
};

static struct nxp_mechanism mechanisms[DEVICES];
static NxmemAllocatorFactoryVtable table[DEVICES];
static uint64_t mechanism_count;
static pthread_once_t filled = PTHREAD_ONCE_INIT;

static void read_limit(void)
{
    const char *text = secure_getenv("NXMEM_HOST_LIMIT");
    char *end;

    if (text == NULL || *text == '\0')
        return;
    errno = 0;
    limit = strtoull(text, &end, 10);
    limit_unreadable = *text < '0' || *text > '9' || *end != '\0' || errno != 0;
}

static void fill(void)
{
    const char *as_device = secure_getenv("NXMEM_HOST_AS_DEVICE");

    if (as_device != NULL && strcmp(as_device, "1") == 0) {
        for (uint32_t i = 0; i < DEVICES; i++)
            mechanisms[i] = (struct nxp_mechanism){"host", {NXMEM_TIER_DEVICE, i}, &host};
        mechanism_count = DEVICES;
    } else {
        mechanisms[0] = (struct nxp_mechanism){"host", {NXMEM_TIER_HOST, 0}, &host};
        mechanism_count = 1;
    }
    read_limit();
    nxp_factories_fill(mechanisms, table, mechanism_count);
}

NxmemStatus NxmemNegotiate(const NxmemNegotiateRequest *request, NxmemNegotiateResponse *response)
{
    return nxp_negotiate(host.capabilities, request, response);
}

NxmemStatus NxmemCreateAllocatorFactories(const NxmemAllocatorFactoryVtable **factories, uint64_t max_factories,
                                          uint64_t *count)
{
    pthread_once(&filled, fill);
    return nxp_factories_publish(table, mechanism_count, factories, max_factories, count);
}

NxmemStatus NxmemQueryUnloadReadiness(NxmemUnloadReport *report)
{
    return nxp_unload_report(report);
}
