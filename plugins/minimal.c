/* The smallest plugin that keeps every rule, on the public header alone: device memory straight from the driver, freed
 * at once. docs/plugin-guide.md goes through it; copy it and put your memory where the driver's calls are.
 *
 *     cc -std=c11 -Wall -Wextra -Werror -shared -fPIC -Iinclude -o minimal.so plugins/minimal.c
 *     nxmem-check ./minimal.so
 *
 * It speaks minor 0 of the ABI: no queue, no structured release, no companion. The host does the waiting.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <nxmem_memory_abi.h>

#define DEVICES 16

/* One opened mechanism; what the host sees of it comes first. */
struct allocator {
    NxmemAllocatorVtable vtable;
    uint64_t references;
};

struct block {
    uint64_t mechanism; /* which open it is of: another may have the same ids */
    uint64_t id;        /* the host's; addresses come back, ids never do */
    uint64_t address, bytes;
    struct block *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* all below; never held while the driver runs */
static struct block *blocks;
static uint64_t live_blocks, live_allocators, last_mechanism;

static NxmemStatus status(uint32_t code, const char *words)
{
    NxmemStatus result = { .code = code };

    result.message_len = (uint32_t)strlen(words);
    memcpy(result.message, words, result.message_len); /* ours all fit */
    return result;
}

/* The driver is the program's: it is loaded by now, and its context is current. */
static int driver(const char *name, void *ret_function)
{
    void *library = dlopen("libcuda.so.1", RTLD_LAZY), *found = library ? dlsym(library, name) : NULL;

    memcpy(ret_function, &found, sizeof found);
    return found != NULL;
}

static int is_ours(const struct allocator *self, uint64_t mechanism, NxmemDeviceId device, NxmemStatus *ret_refusal)
{
    if (mechanism != self->vtable.mechanism_id)
        *ret_refusal = status(NXMEM_STATUS_WRONG_MECHANISM, "another mechanism's");
    else if (device.tier != self->vtable.device.tier || device.index != self->vtable.device.index)
        *ret_refusal = status(NXMEM_STATUS_WRONG_DEVICE, "another device's");
    else
        return 1;
    return 0;
}

static NxmemStatus allocate(void *context, const NxmemAllocRequest *request, NxmemAllocResult *result)
{
    int (*cu_allocate)(uint64_t *, size_t), (*cu_free)(uint64_t);
    NxmemStatus refusal;
    struct block *block;

    if (request->struct_size < sizeof *request || result->struct_size < sizeof *result)
        return status(NXMEM_STATUS_SHORT_STRUCT, "request or result is too short");
    if (!is_ours(context, request->mechanism_id, request->device, &refusal))
        return refusal;
    if (!driver("cuMemAlloc_v2", &cu_allocate) || !driver("cuMemFree_v2", &cu_free))
        return status(NXMEM_STATUS_DEVICE_ERROR, "there is no CUDA driver");
    block = calloc(1, sizeof *block);
    if (block == NULL)
        return status(NXMEM_STATUS_OUT_OF_MEMORY, "no memory for the record");
    block->mechanism = request->mechanism_id;
    block->id = request->allocation_id;
    block->bytes = request->bytes;
    if (cu_allocate(&block->address, request->bytes ? request->bytes : 1) != 0) {
        free(block);
        return status(NXMEM_STATUS_OUT_OF_MEMORY, "the driver has none");
    }
    if (block->address % request->align != 0) { /* the driver promises 256 only */
        cu_free(block->address);
        free(block);
        return status(NXMEM_STATUS_OUT_OF_MEMORY, "the driver aligns less");
    }
    result->ptr = (uint8_t *)(uintptr_t)block->address;
    result->owned_bytes = result->mapped_bytes = block->bytes;
    pthread_mutex_lock(&lock);
    block->next = blocks;
    blocks = block;
    live_blocks++;
    pthread_mutex_unlock(&lock);
    return status(NXMEM_STATUS_OK, "");
}

/* Out of the list, so that nobody else finds it; NULL when it is not there. */
static struct block *take(uint64_t mechanism, uint64_t id)
{
    struct block **link = &blocks, *found;

    pthread_mutex_lock(&lock);
    while (*link != NULL && ((*link)->mechanism != mechanism || (*link)->id != id))
        link = &(*link)->next;
    found = *link;
    if (found != NULL)
        *link = found->next;
    pthread_mutex_unlock(&lock);
    return found;
}

/* It counts until it is gone: the gate may be asked meanwhile. */
static void settle(struct block *block, int gone)
{
    pthread_mutex_lock(&lock);
    if (gone) {
        live_blocks--;
    } else {
        block->next = blocks;
        blocks = block;
    }
    pthread_mutex_unlock(&lock);
    if (gone)
        free(block);
}

static NxmemStatus deallocate(void *context, const NxmemAllocation *allocation, uint64_t *unmapped_bytes)
{
    int (*cu_free)(uint64_t);
    NxmemStatus refusal;
    struct block *block;
    uint64_t bytes;
    int gone;

    if (allocation->struct_size < sizeof *allocation)
        return status(NXMEM_STATUS_SHORT_STRUCT, "the allocation is too short");
    if (!is_ours(context, allocation->mechanism_id, allocation->device, &refusal))
        return refusal;
    block = take(allocation->mechanism_id, allocation->allocation_id);
    if (block == NULL)
        return status(NXMEM_STATUS_UNKNOWN_ALLOCATION, "not live");
    bytes = block->bytes;
    gone = driver("cuMemFree_v2", &cu_free) && cu_free(block->address) == 0;
    settle(block, gone);
    if (!gone)
        return status(NXMEM_STATUS_DEVICE_ERROR, "the driver keeps it");
    *unmapped_bytes = bytes;
    return status(NXMEM_STATUS_OK, "");
}

static void retain(void *context)
{
    struct allocator *self = context;

    pthread_mutex_lock(&lock);
    self->references++;
    pthread_mutex_unlock(&lock);
}

static void release(void *context)
{
    struct allocator *self = context;
    int last;

    pthread_mutex_lock(&lock);
    last = --self->references == 0;
    live_allocators -= (uint64_t)last;
    pthread_mutex_unlock(&lock);
    if (last)
        free(self);
}

/* There is a factory for each device that a machine may have; which it has is known only now. */
static int has_device(uint32_t index)
{
    int (*count_of)(int *), count = 0;

    return !driver("cuDeviceGetCount", &count_of) || count_of(&count) != 0 || index < (uint32_t)count;
}

static NxmemStatus open_allocator(void *context, const NxmemOpenRequest *request, const NxmemAllocatorVtable **vtable)
{
    const NxmemAllocatorFactoryVtable *factory = context;
    struct allocator *self;

    if (request->struct_size < sizeof *request)
        return status(NXMEM_STATUS_SHORT_STRUCT, "the request is too short");
    if (!has_device(factory->device.index))
        return status(NXMEM_STATUS_WRONG_DEVICE, "this machine has fewer devices");
    if (request->device.tier != factory->device.tier || request->device.index != factory->device.index)
        return status(NXMEM_STATUS_WRONG_DEVICE, "another device's");
    if (request->required_capability_flags & ~(uint64_t)NXMEM_CAPABILITY_ALLOCATOR)
        return status(NXMEM_STATUS_UNSUPPORTED_CAPABILITY, "allocates, and nothing else");
    self = calloc(1, sizeof *self);
    if (self == NULL)
        return status(NXMEM_STATUS_OUT_OF_MEMORY, "no memory for the allocator");
    self->references = 1; /* the host's */
    self->vtable = (NxmemAllocatorVtable){
        .struct_size = 120, /* minor 0 ends before release_allocation */
        .abi_minor = 0,
        .device = factory->device,
        .capability_flags = NXMEM_CAPABILITY_ALLOCATOR,
        .name = factory->name,
        .ctx = self,
        .allocate = allocate,
        .deallocate = deallocate,
        .retain = retain,
        .release = release,
    };
    pthread_mutex_lock(&lock);
    self->vtable.mechanism_id = ++last_mechanism;
    live_allocators++;
    pthread_mutex_unlock(&lock);
    *vtable = &self->vtable;
    return status(NXMEM_STATUS_OK, "");
}

static void release_factory(void *context)
{
    (void)context; /* static */
}

/* --- the three exports: extern "C" in C++, and visible whatever -fvisibility says ------------------------- */

#define EXPORT __attribute__((visibility("default")))
EXPORT NxmemStatus NxmemNegotiate(const NxmemNegotiateRequest *request, NxmemNegotiateResponse *response);
EXPORT NxmemStatus NxmemCreateAllocatorFactories(const NxmemAllocatorFactoryVtable **factories, uint64_t max_factories,
                                                 uint64_t *count);
EXPORT NxmemStatus NxmemQueryUnloadReadiness(NxmemUnloadReport *report);

NxmemStatus NxmemNegotiate(const NxmemNegotiateRequest *request, NxmemNegotiateResponse *response)
{
    const NxmemVersionRange ours = { .major_min = 1, .major_max = 1, .minor_min = 0, .minor_max = 0 };
    const NxmemVersionRange *host;

    if (request == NULL || response == NULL)
        return status(NXMEM_STATUS_INVALID_ARGUMENT, "request or response is NULL");
    if (response->struct_size < sizeof *response)
        return status(NXMEM_STATUS_SHORT_STRUCT, "the response is too short");
    memset(response, 0, sizeof *response);
    response->struct_size = sizeof *response;
    response->plugin_range = ours; /* also for the host that is refused */
    if (request->struct_size < sizeof *request)
        return status(NXMEM_STATUS_SHORT_STRUCT, "the request is too short");
    host = &request->host_range;
    if (host->major_min > 1 || host->major_max < 1 || host->minor_min > 0)
        return status(NXMEM_STATUS_VERSION_MISMATCH, "speaks 1.0");
    if (!(request->host_capability_flags & NXMEM_CAPABILITY_ALLOCATOR))
        return status(NXMEM_STATUS_UNSUPPORTED_CAPABILITY, "can do nothing but allocate");
    response->agreed_major = 1;
    response->agreed_minor = 0;
    response->capability_flags = NXMEM_CAPABILITY_ALLOCATOR;
    return status(NXMEM_STATUS_OK, "");
}

NxmemStatus NxmemCreateAllocatorFactories(const NxmemAllocatorFactoryVtable **factories, uint64_t max_factories,
                                          uint64_t *count)
{
    static NxmemAllocatorFactoryVtable all[DEVICES];

    for (*count = 0; *count < DEVICES && *count < max_factories; ++*count) {
        NxmemAllocatorFactoryVtable *factory = &all[*count];

        *factory = (NxmemAllocatorFactoryVtable){
            .struct_size = sizeof *factory,
            .abi_minor = 0,
            .name = (const uint8_t *)"minimal",
            .device = { .tier = NXMEM_TIER_DEVICE, .index = (uint32_t)*count },
            .capability_flags = NXMEM_CAPABILITY_ALLOCATOR,
            .ctx = factory,
            .open_allocator = open_allocator,
            .release = release_factory,
        };
        factories[*count] = factory;
    }
    return status(NXMEM_STATUS_OK, "");
}

NxmemStatus NxmemQueryUnloadReadiness(NxmemUnloadReport *report)
{
    if (report->struct_size < sizeof *report)
        return status(NXMEM_STATUS_SHORT_STRUCT, "the report is too short");
    pthread_mutex_lock(&lock);
    report->live_allocators = live_allocators;
    report->live_allocations = live_blocks;
    pthread_mutex_unlock(&lock);
    return status(NXMEM_STATUS_OK, "");
}
