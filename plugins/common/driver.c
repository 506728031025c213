#include "plugins/common/driver.h"

#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "plugins/common/status.h"

#define DRIVER_LIBRARY "libcuda.so.1"

/* More than any CUDA allocation is aligned to: 2 MiB, the largest page the driver maps. A request for more
 * is refused before the driver is asked; up to it, the address itself tells. */
enum { ALIGN_LIMIT = 2 * 1024 * 1024 };

/* NULL: this driver is older than the call. */
static struct driver {
    __typeof__(cuMemAlloc_v2) *alloc;
    __typeof__(cuMemFree_v2) *free;
    __typeof__(cuMemAllocAsync) *alloc_async, *alloc_async_ptsz;
    __typeof__(cuMemFreeAsync) *free_async, *free_async_ptsz;
    __typeof__(cuMemAllocFromPoolAsync) *alloc_from_pool, *alloc_from_pool_ptsz;
    __typeof__(cuGetErrorName) *error_name;
    __typeof__(cuDeviceGetCount) *device_count;
} driver;
static bool driver_found;
static void *driver_library;
/* Guards the three above until driver_found; who opened an allocator has passed through it and may read `driver`
 * without: it never changes again. */
static pthread_mutex_t driver_lock = PTHREAD_MUTEX_INITIALIZER;

static void look_up(void *library, const char *symbol, void *ret_function)
{
    void *found = dlsym(library, symbol);

    memcpy(ret_function, &found, sizeof found);
}

static void look_up_all(void *library, struct driver *ret_driver)
{
    look_up(library, "cuMemAlloc_v2", &ret_driver->alloc);
    look_up(library, "cuMemFree_v2", &ret_driver->free);
    look_up(library, "cuMemAllocAsync", &ret_driver->alloc_async);
    look_up(library, "cuMemAllocAsync_ptsz", &ret_driver->alloc_async_ptsz);
    look_up(library, "cuMemFreeAsync", &ret_driver->free_async);
    look_up(library, "cuMemFreeAsync_ptsz", &ret_driver->free_async_ptsz);
    look_up(library, "cuMemAllocFromPoolAsync", &ret_driver->alloc_from_pool);
    look_up(library, "cuMemAllocFromPoolAsync_ptsz", &ret_driver->alloc_from_pool_ptsz);
    look_up(library, "cuGetErrorName", &ret_driver->error_name);
    look_up(library, "cuDeviceGetCount", &ret_driver->device_count);
}

/* The loader runs without our lock, so two threads may get here; the second one's work is dropped. */
static NxmemStatus find_driver(void)
{
    struct driver found;
    bool first;
    void *library = dlopen(DRIVER_LIBRARY, RTLD_NOLOAD | RTLD_LAZY);

    if (library == NULL)
        library = dlopen(DRIVER_LIBRARY, RTLD_LAZY | RTLD_LOCAL);
    if (library == NULL)
        return nxp_status(NXMEM_STATUS_DEVICE_ERROR,
                          "no CUDA driver: " DRIVER_LIBRARY " is neither loaded nor to be found; install the driver");
    look_up_all(library, &found);
    if (found.alloc == NULL || found.free == NULL) {
        dlclose(library);
        return nxp_status(NXMEM_STATUS_DEVICE_ERROR,
                          DRIVER_LIBRARY " has no cuMemAlloc_v2 and cuMemFree_v2: not a CUDA driver");
    }
    pthread_mutex_lock(&driver_lock);
    first = !driver_found;
    if (first) {
        driver = found;
        driver_library = library;
    }
    driver_found = true;
    pthread_mutex_unlock(&driver_lock);
    if (!first)
        dlclose(library);
    return nxp_ok();
}

void nxp_driver_look_up(const char *symbol, void *ret_function)
{
    look_up(driver_library, symbol, ret_function);
}

NxmemStatus nxp_driver_open(NxmemDeviceId device)
{
    NxmemStatus status = nxp_ok();
    bool found;
    int count;

    pthread_mutex_lock(&driver_lock);
    found = driver_found;
    pthread_mutex_unlock(&driver_lock);
    if (!found)
        status = find_driver();
    if (status.code != NXMEM_STATUS_OK)
        return status;
    /* Before cuInit the driver does not count; then the first allocation will say what is wrong. */
    if (driver.device_count == NULL || driver.device_count(&count) != CUDA_SUCCESS)
        return status;
    if (count < 0 || device.index >= (uint32_t)count)
        return nxp_status(NXMEM_STATUS_WRONG_DEVICE, "the driver has no device of this index");
    return status;
}

NxmemStatus nxp_driver_status(const char *call, unsigned code)
{
    CUresult result = (CUresult)code;
    struct nxp_message message = {.length = 0};
    const char *name = NULL;

    if (driver.error_name == NULL || driver.error_name(result, &name) != CUDA_SUCCESS || name == NULL)
        name = "CUresult";
    nxp_message_add(&message, call);
    nxp_message_add(&message, ": ");
    nxp_message_add(&message, name);
    nxp_message_add(&message, " (");
    nxp_message_add_number(&message, (uint64_t)(unsigned)result);
    nxp_message_add(&message, ")");
    return nxp_status_from(
        result == CUDA_ERROR_OUT_OF_MEMORY ? NXMEM_STATUS_OUT_OF_MEMORY : NXMEM_STATUS_DEVICE_ERROR, &message);
}

static NxmemStatus missing(const char *call)
{
    struct nxp_message message = {.length = 0};

    nxp_message_add(&message, "this CUDA driver has no ");
    nxp_message_add(&message, call);
    return nxp_status_from(NXMEM_STATUS_NOT_IMPLEMENTED, &message);
}

static uint32_t kind_of(const NxmemCudaOrder *order)
{
    return order != NULL ? order->kind : NXMEM_CUDA_ORDER_SYNCHRONOUS;
}

static bool per_thread(const NxmemCudaOrder *order)
{
    return (order->flags & NXMEM_CUDA_ORDER_FLAG_PER_THREAD) != 0;
}

static CUstream stream_of(const NxmemCudaOrder *order)
{
    return (CUstream)(uintptr_t)order->stream;
}

static NxmemStatus allocate_stream(const NxmemCudaOrder *order, size_t bytes, CUdeviceptr *ret_address)
{
    const char *call = per_thread(order) ? "cuMemAllocAsync_ptsz" : "cuMemAllocAsync";
    __typeof__(cuMemAllocAsync) *function = per_thread(order) ? driver.alloc_async_ptsz : driver.alloc_async;
    CUresult result;

    if (function == NULL)
        return missing(call);
    result = function(ret_address, bytes, stream_of(order));
    return result == CUDA_SUCCESS ? nxp_ok() : nxp_driver_status(call, result);
}

static NxmemStatus allocate_pool(const NxmemCudaOrder *order, size_t bytes, CUdeviceptr *ret_address)
{
    const char *call = per_thread(order) ? "cuMemAllocFromPoolAsync_ptsz" : "cuMemAllocFromPoolAsync";
    __typeof__(cuMemAllocFromPoolAsync) *function =
        per_thread(order) ? driver.alloc_from_pool_ptsz : driver.alloc_from_pool;
    CUresult result;

    if (function == NULL)
        return missing(call);
    result = function(ret_address, bytes, (CUmemoryPool)(uintptr_t)order->pool, stream_of(order));
    return result == CUDA_SUCCESS ? nxp_ok() : nxp_driver_status(call, result);
}

static NxmemStatus allocate_synchronous(size_t bytes, CUdeviceptr *ret_address)
{
    CUresult result = driver.alloc(ret_address, bytes);

    return result == CUDA_SUCCESS ? nxp_ok() : nxp_driver_status("cuMemAlloc_v2", result);
}

static NxmemStatus allocate_by_kind(const NxmemCudaOrder *order, size_t bytes, CUdeviceptr *ret_address)
{
    switch (kind_of(order)) {
    case NXMEM_CUDA_ORDER_STREAM:
        return allocate_stream(order, bytes, ret_address);
    case NXMEM_CUDA_ORDER_POOL:
        return allocate_pool(order, bytes, ret_address);
    default:
        return allocate_synchronous(bytes, ret_address);
    }
}

NxmemStatus nxp_driver_allocate(const NxmemCudaOrder *order, uint64_t bytes, uint64_t align, uint64_t *ret_address)
{
    CUdeviceptr address = 0;
    NxmemStatus status;

    if (align > ALIGN_LIMIT)
        return nxp_status(NXMEM_STATUS_INVALID_ARGUMENT, "no CUDA allocation is aligned that far");
    status = allocate_by_kind(order, bytes != 0 ? bytes : 1, &address);
    if (status.code != NXMEM_STATUS_OK)
        return status;
    if (address == 0)
        return nxp_status(NXMEM_STATUS_DEVICE_ERROR, "the driver reported success without an address");
    if (address % align != 0) {
        /* A failure here is the driver's leak; there is nobody left to give the address to. */
        nxp_driver_release(order, address);
        return nxp_status(NXMEM_STATUS_INVALID_ARGUMENT, "the driver aligns its memory less than asked");
    }
    *ret_address = address;
    return status;
}

/* What the host hands back at an end may have gone before: with the driver, or with its context, as after the last release of a
 * primary one, of which a host learns when it has happened. */
static bool is_gone(CUresult result)
{
    return result == CUDA_ERROR_DEINITIALIZED || result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

NxmemStatus nxp_driver_release(const NxmemCudaOrder *order, uint64_t address)
{
    const char *call = "cuMemFree_v2";
    CUresult result;

    if (kind_of(order) == NXMEM_CUDA_ORDER_SYNCHRONOUS) {
        result = driver.free(address);
    } else {
        __typeof__(cuMemFreeAsync) *function = per_thread(order) ? driver.free_async_ptsz : driver.free_async;

        call = per_thread(order) ? "cuMemFreeAsync_ptsz" : "cuMemFreeAsync";
        if (function == NULL)
            return missing(call);
        result = function(address, stream_of(order));
    }
    if (result == CUDA_SUCCESS || (order == NULL && is_gone(result)))
        return nxp_ok();
    return nxp_driver_status(call, result);
}
