/* Memory and events of another process of this user: a handle says where the owner keeps its arena. */
#include "block.h"
#include "context.h"
#include "device.h"
#include "event.h"
#include "log.h"
#include "state.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct handle {
    char magic[8];
    int32_t pid, fd, ordinal, spare;
    uint64_t offset, span, size;
};

_Static_assert(sizeof(struct handle) <= sizeof(CUipcMemHandle), "fits");

static const char magic[8] = "simcuda";

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr dptr)
{
    SIM_ENTER(cuIpcGetMemHandle);
    if (!handle) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_block *b = sim_block_containing(dptr);
    bool fits = b && b->kind == SIM_BLOCK_DEVICE;
    if (fits) {
        struct handle h = { .pid = getpid(), .fd = b->device->arena.fd, .ordinal = b->device->ordinal,
                            .offset = b->range.start - b->device->arena.base, .span = b->range.size, .size = b->size };
        memcpy(h.magic, magic, sizeof magic);
        memset(handle, 0, sizeof *handle);
        memcpy(handle, &h, sizeof h);
    }
    sim_unlock();
    CUresult result = fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    sim_log_plain(SIM_FN_cuIpcGetMemHandle, result, dptr);
    return result;
}

/* The owner's pages in our address space, or NULL: page-aligned, so the block may start inside the first. */
static char *map_remote(const struct handle *h, uint64_t *ret_lead, uint64_t *ret_length)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", h->pid, h->fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return NULL;
    *ret_lead = h->offset % 4096;
    *ret_length = *ret_lead + h->span;
    void *p = mmap(NULL, *ret_length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)(h->offset - *ret_lead));
    close(fd);
    return p == MAP_FAILED ? NULL : p;
}

static CUresult open_handle(CUdeviceptr *dptr, const CUipcMemHandle *handle, unsigned flags, enum sim_fn fn)
{
    struct sim_context *c;
    struct handle h;
    uint64_t lead, length;
    memcpy(&h, handle, sizeof h);
    if (!dptr || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS || memcmp(h.magic, magic, sizeof magic) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (h.pid == getpid()) return CUDA_ERROR_INVALID_CONTEXT; /* not within one process */
    sim_lock();
    CUresult result = sim_context_current(&c);
    char *p = result == CUDA_SUCCESS ? map_remote(&h, &lead, &length) : NULL;
    if (result == CUDA_SUCCESS && !p) result = CUDA_ERROR_MAP_FAILED;
    if (result == CUDA_SUCCESS) {
        struct sim_block *b = sim_block_new(SIM_BLOCK_IPC, (uint64_t)(uintptr_t)p + lead, h.span, h.size, fn);
        if (b) {
            b->context = c;
            b->device = c->device;
            b->backing_offset = lead;
            *dptr = b->range.start;
        } else {
            munmap(p, length);
            result = CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    sim_unlock();
    sim_log_call(fn, result, result ? 0 : *dptr, "size", h.size, NULL, 0);
    return result;
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *dptr, CUipcMemHandle handle, unsigned int flags)
{
    SIM_ENTER(cuIpcOpenMemHandle);
    return open_handle(dptr, &handle, flags, SIM_FN_cuIpcOpenMemHandle);
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *dptr, CUipcMemHandle handle, unsigned int flags)
{
    SIM_ENTER(cuIpcOpenMemHandle_v2);
    return open_handle(dptr, &handle, flags, SIM_FN_cuIpcOpenMemHandle_v2);
}

CUresult cuIpcCloseMemHandle(CUdeviceptr dptr)
{
    SIM_ENTER(cuIpcCloseMemHandle);
    sim_lock();
    struct sim_block *b = sim_block_at(dptr);
    bool fits = b && b->kind == SIM_BLOCK_IPC;
    if (fits) {
        uint64_t lead = b->backing_offset, span = b->range.size;
        sim_block_unmap(b, SIM_FN_cuIpcCloseMemHandle);
        sim_block_retire(b);
        munmap((void *)(uintptr_t)(dptr - lead), lead + span);
    }
    sim_unlock();
    CUresult result = fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    sim_log_plain(SIM_FN_cuIpcCloseMemHandle, result, dptr);
    return result;
}
