#include "host.h"

#include "capture.h"
#include "context.h"
#include "free_check.h"
#include "facts.h"
#include "log.h"
#include "state.h"

#include <sys/mman.h>

enum { PAGE = 4096 };

static uint64_t pages(uint64_t size)
{
    return (size + PAGE - 1) & ~(uint64_t)(PAGE - 1);
}

bool sim_host_is_pinned(const struct sim_block *b)
{
    return b->kind == SIM_BLOCK_HOST || b->kind == SIM_BLOCK_REGISTERED;
}

void sim_host_release(struct sim_block *b, enum sim_fn fn)
{
    bool ours = b->kind == SIM_BLOCK_HOST;
    uint64_t address = b->range.start, span = b->range.size;
    sim_block_unmap(b, fn);
    sim_block_retire(b);
    if (ours) munmap((void *)(uintptr_t)address, span);
}

static CUresult allocate(void **pp, size_t size, unsigned flags, enum sim_fn fn)
{
    const unsigned known = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
    struct sim_context *c;
    if (!pp || (flags & ~known)) return sim_log_refused(fn, CUDA_ERROR_INVALID_VALUE);
    sim_lock();
    CUresult result = sim_context_current(&c);
    if (result == CUDA_SUCCESS && !size) {
        result = (CUresult)sim_fact(SIM_FACT_zero_bytes_host);
        if (result == CUDA_SUCCESS) *pp = NULL;
        sim_unlock();
        return sim_log_refused(fn, result);
    }
    if (result == CUDA_SUCCESS) result = sim_capture_check_unsafe();
    if (result == CUDA_SUCCESS) {
        void *p = pages(size) < size ? MAP_FAILED
                  : mmap(NULL, pages(size), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        struct sim_block *b =
            p == MAP_FAILED ? NULL : sim_block_new(SIM_BLOCK_HOST, (uint64_t)(uintptr_t)p, pages(size), size, fn);
        if (b) {
            b->context = sim_context_owner(c);
            b->device = c->device;
            b->flags = flags;
            *pp = p;
        } else {
            if (p != MAP_FAILED) munmap(p, pages(size));
            result = CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    sim_unlock();
    sim_log_call(fn, result, result ? 0 : (uint64_t)(uintptr_t)*pp, "size", size, "flags", flags);
    return result;
}

CUresult cuMemAllocHost_v2(void **pp, size_t bytesize)
{
    SIM_ENTER(cuMemAllocHost_v2);
    return allocate(pp, bytesize, 0, SIM_FN_cuMemAllocHost_v2);
}

CUresult cuMemHostAlloc(void **pp, size_t bytesize, unsigned int flags)
{
    SIM_ENTER(cuMemHostAlloc);
    return allocate(pp, bytesize, flags, SIM_FN_cuMemHostAlloc);
}

/* Both ends of host memory wait for the context: a copy may still be reading it. */
static CUresult release(void *p, enum sim_block_kind kind, enum sim_fn fn, CUresult unknown)
{
    sim_lock();
    struct sim_block *b = sim_block_at((uint64_t)(uintptr_t)p);
    if (b) sim_free_check(b);
    else sim_free_check_unknown((uint64_t)(uintptr_t)p);
    CUresult result = b && b->kind == kind ? sim_capture_check_unsafe() : unknown;
    if (result == CUDA_SUCCESS) {
        sim_block_ref(b);
        if (sim_fact(SIM_FACT_host_free_waits)) sim_context_wait(b->context);
        if (b->mapped) sim_order_released(b);
        if (b->mapped) sim_host_release(b, fn);
        else result = unknown;
        sim_block_unref(b);
    }
    sim_unlock();
    sim_log_plain(fn, result, (uint64_t)(uintptr_t)p);
    return result;
}

CUresult cuMemFreeHost(void *p)
{
    SIM_ENTER(cuMemFreeHost);
    if (!p) return sim_log_refused(SIM_FN_cuMemFreeHost, (CUresult)sim_fact(SIM_FACT_free_host_null));
    return release(p, SIM_BLOCK_HOST, SIM_FN_cuMemFreeHost, CUDA_ERROR_INVALID_VALUE);
}

static bool overlaps(uint64_t start, uint64_t size)
{
    struct sim_block *next = sim_block_next(start);
    return sim_block_containing(start) || (next && next->range.start - start < size);
}

static CUresult host_register(void *p, size_t size, unsigned flags, enum sim_fn fn)
{
    const unsigned known = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_IOMEMORY |
                           CU_MEMHOSTREGISTER_READ_ONLY;
    uint64_t start = (uint64_t)(uintptr_t)p;
    struct sim_context *c;
    if (!p || !size || (flags & ~known)) return sim_log_refused(fn, CUDA_ERROR_INVALID_VALUE);
    sim_lock();
    CUresult result = sim_context_current(&c);
    if (result == CUDA_SUCCESS) result = sim_capture_check_unsafe();
    if (result == CUDA_SUCCESS && overlaps(start, size)) result = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    if (result == CUDA_SUCCESS) {
        struct sim_block *b = sim_block_new(SIM_BLOCK_REGISTERED, start, size, size, fn);
        if (b) {
            b->context = sim_context_owner(c);
            b->device = c->device;
            b->flags = flags;
        } else {
            result = CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    sim_unlock();
    sim_log_call(fn, result, start, "size", size, "flags", flags);
    return result;
}

CUresult cuMemHostRegister(void *p, size_t bytesize, unsigned int flags)
{
    SIM_ENTER(cuMemHostRegister);
    return host_register(p, bytesize, flags, SIM_FN_cuMemHostRegister);
}

CUresult cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int flags)
{
    SIM_ENTER(cuMemHostRegister_v2);
    return host_register(p, bytesize, flags, SIM_FN_cuMemHostRegister_v2);
}

CUresult cuMemHostUnregister(void *p)
{
    SIM_ENTER(cuMemHostUnregister);
    if (!p) return sim_log_refused(SIM_FN_cuMemHostUnregister, CUDA_ERROR_INVALID_VALUE); /* measured on a driver, unlike the other frees of NULL */
    return release(p, SIM_BLOCK_REGISTERED, SIM_FN_cuMemHostUnregister, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

static struct sim_block *pinned(const void *p)
{
    struct sim_block *b = sim_block_containing((uint64_t)(uintptr_t)p);
    return b && sim_host_is_pinned(b) ? b : NULL;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *dptr, void *p, unsigned int flags)
{
    SIM_ENTER(cuMemHostGetDevicePointer_v2);
    if (!dptr || !p || flags) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult result = pinned(p) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    sim_unlock();
    if (result == CUDA_SUCCESS) *dptr = (CUdeviceptr)(uintptr_t)p;
    return result;
}

CUresult cuMemHostGetFlags(unsigned int *flags, void *p)
{
    SIM_ENTER(cuMemHostGetFlags);
    if (!flags || !p) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_block *b = pinned(p);
    /* every allocation is mapped into a unified address space */
    if (b) *flags = b->flags | (b->kind == SIM_BLOCK_HOST ? CU_MEMHOSTALLOC_DEVICEMAP : 0);
    sim_unlock();
    return b ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
