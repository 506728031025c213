#include "vmm.h"

#include "block.h"
#include "context.h"
#include "device.h"
#include "free_check.h"
#include "log.h"
#include "object.h"
#include "state.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { GRANULARITY = 2 << 20, PAGE = 4096 };

/* Physical memory: lives until the last handle and the last map are gone. */
struct physical {
    struct sim_object object; /* open while `handles` is not 0; each map holds a reference */
    struct sim_device *device;
    uint64_t size;
    int fd;
    unsigned handles;
    bool imported; /* another process pays for it */
    bool host;     /* no device does */
    CUmemAllocationProp prop;
};

struct reservation {
    struct sim_range range; /* first */
};

static struct sim_ranges reservations;

bool sim_vmm_reserved(uint64_t address)
{
    return sim_range_containing(&reservations, address) != NULL;
}

/* --- addresses ------------------------------------------------------------------------------------------- */

static void *reserve_aligned(uint64_t hint, uint64_t size, uint64_t alignment)
{
    char *p = mmap((void *)(uintptr_t)hint, size + alignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return NULL;
    size_t before = (size_t)(-(uintptr_t)p & (alignment - 1));
    if (before) munmap(p, before);
    if (alignment - before) munmap(p + before + size, alignment - before);
    return p + before;
}

CUresult cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr, unsigned long long flags)
{
    SIM_ENTER(cuMemAddressReserve);
    if (!ptr || !size || size % PAGE || (alignment & (alignment - 1)) || flags) return sim_log_refused(SIM_FN_cuMemAddressReserve, CUDA_ERROR_INVALID_VALUE);
    if (alignment < GRANULARITY) alignment = GRANULARITY;
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    sim_lock();
    struct reservation *r = calloc(1, sizeof *r);
    void *p = r ? reserve_aligned(addr, size, alignment) : NULL;
    if (p) {
        r->range.start = *ptr = (uint64_t)(uintptr_t)p;
        r->range.size = size;
        sim_range_insert(&reservations, &r->range);
        result = CUDA_SUCCESS;
    } else {
        free(r);
    }
    sim_unlock();
    sim_log_call(SIM_FN_cuMemAddressReserve, result, result ? 0 : *ptr, "size", size, NULL, 0);
    return result;
}

CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
    SIM_ENTER(cuMemAddressFree);
    sim_lock();
    struct sim_range *r = sim_range_containing(&reservations, ptr);
    struct sim_block *first = sim_block_next(ptr);
    bool mapped = first && first->range.start - ptr < size;
    CUresult result = r && r->start == ptr && r->size == size && !mapped ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) {
        sim_range_remove(&reservations, r);
        munmap((void *)(uintptr_t)ptr, size);
        free(r);
    }
    sim_unlock();
    sim_log_call(SIM_FN_cuMemAddressFree, result, ptr, "size", size, NULL, 0);
    return result;
}

/* --- physical memory ------------------------------------------------------------------------------------- */

static void destroy(struct sim_object *o)
{
    struct physical *p = (struct physical *)o;
    close(p->fd);
    if (!p->imported && !p->host) sim_device_refund(p->device, p->size);
}

static CUresult check_prop(const CUmemAllocationProp *prop, struct sim_device **ret_device)
{
    if (!prop || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
    const unsigned posix = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    if ((unsigned)prop->requestedHandleTypes & ~posix) return CUDA_ERROR_NOT_SUPPORTED;
    if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE && !sim_host_location(&prop->location))
        return CUDA_ERROR_INVALID_VALUE;
    bool host = prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE;
    *ret_device = sim_device_get(host ? 0 : prop->location.id);
    return *ret_device ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

/* Takes over `fd` on success. */
static struct physical *physical_new(struct sim_device *d, uint64_t size, int fd)
{
    struct physical *p = sim_object_new(SIM_HANDLE, sizeof *p, destroy);
    if (!p) return NULL;
    p->device = d;
    p->size = size;
    p->fd = fd;
    p->handles = 1;
    return p;
}

static CUresult create(struct sim_device *d, const CUmemAllocationProp *prop, uint64_t size, struct physical **ret)
{
    char name[32]; /* carries the device to a process that imports it */
    snprintf(name, sizeof name, "simcuda-physical-%d", d->physical);
    bool host = prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE;
    if (!host && !sim_device_charge(d, size)) return CUDA_ERROR_OUT_OF_MEMORY;
    int fd = memfd_create(name, MFD_CLOEXEC);
    struct physical *p = fd >= 0 && ftruncate(fd, (off_t)size) == 0 ? physical_new(d, size, fd) : NULL;
    if (!p) {
        if (fd >= 0) close(fd);
        if (!host) sim_device_refund(d, size);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    p->host = host;
    p->prop = *prop;
    *ret = p;
    return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop,
                     unsigned long long flags)
{
    SIM_ENTER(cuMemCreate);
    struct sim_device *d = NULL;
    struct physical *p = NULL;
    CUresult result = check_prop(prop, &d);
    if (!handle || !size || size % GRANULARITY || flags) result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) {
        sim_lock();
        result = create(d, prop, size, &p);
        sim_unlock();
    }
    if (result == CUDA_SUCCESS) *handle = (CUmemGenericAllocationHandle)(uintptr_t)p;
    sim_log_call(SIM_FN_cuMemCreate, result, (uint64_t)(uintptr_t)p, "size", size, NULL, 0);
    return result;
}

static struct physical *get(CUmemGenericAllocationHandle handle)
{
    return sim_object_find((void *)(uintptr_t)handle, SIM_HANDLE);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    SIM_ENTER(cuMemRelease);
    sim_lock();
    struct physical *p = get(handle);
    if (p && --p->handles == 0) sim_object_close(&p->object);
    sim_unlock();
    CUresult result = p ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    sim_log_plain(SIM_FN_cuMemRelease, result, handle);
    return result;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
    SIM_ENTER(cuMemRetainAllocationHandle);
    if (!handle) return sim_log_refused(SIM_FN_cuMemRetainAllocationHandle, CUDA_ERROR_INVALID_VALUE);
    sim_lock();
    struct sim_block *b = sim_block_containing((uint64_t)(uintptr_t)addr);
    bool is_map = b && b->kind == SIM_BLOCK_MAP;
    if (is_map) {
        struct physical *p = b->backing;
        if (p->handles++ == 0) sim_object_reopen(&p->object);
        *handle = (CUmemGenericAllocationHandle)(uintptr_t)p;
    }
    sim_unlock();
    CUresult result = is_map ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    sim_log_plain(SIM_FN_cuMemRetainAllocationHandle, result, is_map ? *handle : 0);
    return result;
}

CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
                                       CUmemAllocationGranularity_flags option)
{
    SIM_ENTER(cuMemGetAllocationGranularity);
    struct sim_device *d;
    if (!granularity || (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM && option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = check_prop(prop, &d);
    if (result == CUDA_SUCCESS) *granularity = GRANULARITY;
    return result;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle)
{
    SIM_ENTER(cuMemGetAllocationPropertiesFromHandle);
    if (!prop) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct physical *p = get(handle);
    if (p) *prop = p->prop;
    sim_unlock();
    return p ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* --- maps ------------------------------------------------------------------------------------------------ */

static CUresult map(uint64_t ptr, uint64_t size, struct physical *p, enum sim_fn fn)
{
    struct sim_range *r = sim_range_containing(&reservations, ptr);
    struct sim_block *next = sim_block_next(ptr);
    if (!p || size > p->size || !r || ptr - r->start + size > r->size) return CUDA_ERROR_INVALID_VALUE;
    if (sim_block_containing(ptr) || (next && next->range.start - ptr < size)) return CUDA_ERROR_INVALID_VALUE;
    void *at = mmap((void *)(uintptr_t)ptr, size, PROT_NONE, MAP_SHARED | MAP_FIXED, p->fd, 0);
    struct sim_block *b = at == MAP_FAILED ? NULL : sim_block_new(SIM_BLOCK_MAP, ptr, size, size, fn);
    if (!b) return CUDA_ERROR_OUT_OF_MEMORY;
    b->device = p->device;
    b->backing = p;
    b->host_sees = p->host;
    sim_object_ref(&p->object);
    return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags)
{
    SIM_ENTER(cuMemMap);
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    if (size && !(ptr % GRANULARITY) && !(size % GRANULARITY) && !offset && !flags) {
        sim_lock();
        result = map(ptr, size, get(handle), SIM_FN_cuMemMap);
        sim_unlock();
    }
    sim_log_call(SIM_FN_cuMemMap, result, ptr, "size", size, "handle", handle);
    return result;
}

/* Is [ptr, ptr + size) exactly one or more whole maps, without a hole? */
static bool whole_maps(uint64_t ptr, uint64_t size)
{
    uint64_t end = ptr + size;
    while (ptr < end) {
        struct sim_block *b = sim_block_at(ptr);
        if (!b || b->kind != SIM_BLOCK_MAP || b->range.size > end - ptr) return false;
        ptr += b->range.size;
    }
    return true;
}

static void unmap_one(struct sim_block *b)
{
    struct physical *p = b->backing;
    uint64_t start = b->range.start, size = b->range.size;
    sim_free_check(b);
    sim_order_released(b);
    sim_block_unmap(b, SIM_FN_cuMemUnmap);
    sim_block_retire(b);
    /* the addresses stay reserved */
    mmap((void *)(uintptr_t)start, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    sim_object_unref(&p->object);
}

CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
    SIM_ENTER(cuMemUnmap);
    sim_lock();
    CUresult result = size && whole_maps(ptr, size) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        for (struct sim_block *b; (b = sim_block_next(ptr)) && b->range.start - ptr < size;) unmap_one(b);
    sim_unlock();
    sim_log_call(SIM_FN_cuMemUnmap, result, ptr, "size", size, NULL, 0);
    return result;
}

/* --- access: two bits a device, the union is what this process's pages allow ------------------------------- */

static unsigned access_shift(const CUmemLocation *location)
{
    return location->type == CU_MEM_LOCATION_TYPE_DEVICE ? 2u * (unsigned)location->id : 0;
}

bool sim_vmm_is_host(const struct sim_block *b)
{
    return ((const struct physical *)b->backing)->host;
}

unsigned long long sim_vmm_handle_types(const struct sim_block *b)
{
    return (unsigned long long)((const struct physical *)b->backing)->prop.requestedHandleTypes;
}

bool sim_vmm_is_rdma_capable(const struct sim_block *b)
{
    return ((const struct physical *)b->backing)->prop.allocFlags.gpuDirectRDMACapable != 0;
}

unsigned sim_vmm_access(const struct sim_block *b, const struct sim_device *d)
{
    return b->flags >> 2u * (unsigned)d->ordinal & 3;
}

static bool valid_location(const CUmemLocation *l)
{
    if (l->type == CU_MEM_LOCATION_TYPE_DEVICE) return sim_device_get(l->id) != NULL;
    return l->type == CU_MEM_LOCATION_TYPE_HOST || l->type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
}

static unsigned with_access(unsigned flags, const CUmemAccessDesc *desc, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        unsigned shift = access_shift(&desc[i].location);
        flags = (flags & ~(3u << shift)) | (unsigned)desc[i].flags << shift;
    }
    return flags;
}

static void set_access(struct sim_block *b, unsigned flags)
{
    b->flags = flags;
    bool writes = (b->flags & 0xaaaaaaaau) != 0, reads = b->flags != 0;
    int prot = writes ? PROT_READ | PROT_WRITE : reads ? PROT_READ : PROT_NONE;
    mprotect((void *)(uintptr_t)b->range.start, b->range.size, prot);
}

/* The devices that could reach the memory before and cannot then, a bit each. */
static unsigned losers(unsigned before, unsigned after)
{
    unsigned devices = 0;
    for (unsigned i = 0; i < 16; i++)
        if ((before >> 2 * i & 3) && !(after >> 2 * i & 3)) devices |= 1u << i;
    return devices;
}

/* Whoever loses access had better be done with the memory; what is writing it at this moment ends first. */
static void take_access(uint64_t ptr, uint64_t size, const CUmemAccessDesc *desc, size_t count)
{
    for (uint64_t at = ptr; at < ptr + size;) {
        struct sim_block *b = sim_block_at(at);
        if (!b) return; /* unmapped while the lock was away */
        at += b->range.size;
        unsigned after = with_access(b->flags, desc, count);
        if (!(b->flags & ~after)) continue;
        sim_order_revoked(b, losers(b->flags, after));
        sim_block_ref(b);
        sim_block_settle(b);
        sim_block_unref(b);
    }
}

CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
    SIM_ENTER(cuMemSetAccess);
    if (!size || !desc || !count) return sim_log_refused(SIM_FN_cuMemSetAccess, CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < count; i++)
        if (!valid_location(&desc[i].location) || desc[i].flags == 2 || desc[i].flags > CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            return sim_log_refused(SIM_FN_cuMemSetAccess, CUDA_ERROR_INVALID_VALUE);
    sim_lock();
    if (whole_maps(ptr, size)) take_access(ptr, size, desc, count);
    CUresult result = whole_maps(ptr, size) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    for (uint64_t at = ptr; result == CUDA_SUCCESS && at < ptr + size;) {
        struct sim_block *b = sim_block_at(at);
        set_access(b, with_access(b->flags, desc, count));
        at += b->range.size;
    }
    sim_unlock();
    sim_log_call(SIM_FN_cuMemSetAccess, result, ptr, "size", size, NULL, 0);
    return result;
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr)
{
    SIM_ENTER(cuMemGetAccess);
    if (!flags || !location || !valid_location(location)) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_block *b = sim_block_containing(ptr);
    bool is_map = b && b->kind == SIM_BLOCK_MAP;
    if (is_map) *flags = b->flags >> access_shift(location) & 3;
    sim_unlock();
    return is_map ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* --- between processes ------------------------------------------------------------------------------------- */

CUresult cuMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags)
{
    SIM_ENTER(cuMemExportToShareableHandle);
    if (!shareable || flags) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct physical *p = get(handle);
    CUresult result = p ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (p && (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || !(p->prop.requestedHandleTypes & type)))
        result = CUDA_ERROR_NOT_SUPPORTED;
    int fd = result == CUDA_SUCCESS ? dup(p->fd) : -1;
    sim_unlock();
    if (result == CUDA_SUCCESS && fd < 0) result = CUDA_ERROR_OPERATING_SYSTEM;
    if (result == CUDA_SUCCESS) *(int *)shareable = fd;
    return result;
}

static struct sim_device *device_of_fd(int fd)
{
    char link[64], name[64];
    int ordinal = -1;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, name, sizeof name - 1);
    if (n <= 0) return NULL;
    name[n] = '\0';
    return sscanf(name, "/memfd:simcuda-physical-%d", &ordinal) == 1 ? sim_device_physical(ordinal) : NULL;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *os_handle,
                                        CUmemAllocationHandleType type)
{
    SIM_ENTER(cuMemImportFromShareableHandle);
    struct stat st;
    int fd = (int)(intptr_t)os_handle;
    if (!handle) return sim_log_refused(SIM_FN_cuMemImportFromShareableHandle, CUDA_ERROR_INVALID_VALUE);
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return sim_log_refused(SIM_FN_cuMemImportFromShareableHandle, CUDA_ERROR_NOT_SUPPORTED);
    struct sim_device *d = device_of_fd(fd);
    if (!d || fstat(fd, &st) != 0 || (fd = dup(fd)) < 0) return sim_log_refused(SIM_FN_cuMemImportFromShareableHandle, CUDA_ERROR_INVALID_VALUE);
    sim_lock();
    struct physical *p = physical_new(d, (uint64_t)st.st_size, fd);
    if (p) {
        p->imported = true;
        p->prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        p->prop.location = (CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = d->ordinal };
        p->prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
        *handle = (CUmemGenericAllocationHandle)(uintptr_t)p;
    } else {
        close(fd);
    }
    sim_unlock();
    CUresult result = p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    sim_log_call(SIM_FN_cuMemImportFromShareableHandle, result, (uint64_t)(uintptr_t)p, "size",
                 (uint64_t)st.st_size, NULL, 0);
    return result;
}
