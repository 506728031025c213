#include "ipc.h"

#include "block.h"
#include "context.h"
#include "device.h"
#include "finding.h"
#include "log.h"
#include "state.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct handle {
    char magic[8];
    int32_t pid, fd, ordinal, spare;
    uint64_t offset, span, size;
    uint64_t block; /* an address that is allocated again gets another handle */
};

/* A handle that this process has open: one mapping, however often it was opened. */
struct opened {
    struct handle handle;
    unsigned count;
    int fd; /* the owner's memory */
};

_Static_assert(sizeof(struct handle) <= sizeof(CUipcMemHandle), "fits");

static const char magic[8] = "simcuda";

/* --- who has it open ----------------------------------------------------------------------------------------- */

static int lock(int fd, short type, int command, uint64_t offset, uint64_t span, struct flock *ret_lock)
{
    *ret_lock = (struct flock){ .l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)offset, .l_len = (off_t)span };
    return fcntl(fd, command, ret_lock);
}

void sim_ipc_claim(int fd, uint64_t offset, uint64_t span)
{
    struct flock l;
    lock(fd, F_RDLCK, F_OFD_SETLK, offset, span, &l);
}

void sim_ipc_disclaim(int fd, uint64_t offset, uint64_t span)
{
    struct flock l;
    lock(fd, F_UNLCK, F_OFD_SETLK, offset, span, &l);
}

void sim_ipc_check_free(const struct sim_block *b)
{
    struct flock l;
    const struct sim_arena *a = b->exported ? &b->device->arena : NULL;
    bool claimed = a && lock(a->fd, F_WRLCK, F_OFD_GETLK, b->range.start - a->base, b->range.size, &l) == 0 &&
                   l.l_type != F_UNLCK;
    if (claimed) sim_find_call(SIM_FINDING_free_while_imported, b, 0);
}

/* --- handles --------------------------------------------------------------------------------------------------- */

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr dptr)
{
    SIM_ENTER(cuIpcGetMemHandle);
    if (!handle) return sim_log_refused(SIM_FN_cuIpcGetMemHandle, CUDA_ERROR_INVALID_VALUE);
    sim_lock();
    struct sim_block *b = sim_block_containing(dptr);
    bool fits = b && b->kind == SIM_BLOCK_DEVICE;
    if (fits) {
        struct handle h = { .pid = getpid(), .fd = b->device->arena.fd, .ordinal = b->device->ordinal,
                            .offset = b->range.start - b->device->arena.base, .span = b->range.size, .size = b->size, .block = b->id };
        memcpy(h.magic, magic, sizeof magic);
        memset(handle, 0, sizeof *handle);
        memcpy(handle, &h, sizeof h);
        b->exported = true;
    }
    sim_unlock();
    CUresult result = fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    sim_log_plain(SIM_FN_cuIpcGetMemHandle, result, dptr);
    return result;
}

/* The owner's pages in our address space, or NULL: page-aligned, so the block may start inside the first. */
static char *map_remote(const struct handle *h, int *ret_fd, uint64_t *ret_lead, uint64_t *ret_length)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", h->pid, h->fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return NULL;
    *ret_lead = h->offset % 4096;
    *ret_length = *ret_lead + h->span;
    void *p = mmap(NULL, *ret_length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)(h->offset - *ret_lead));
    if (p == MAP_FAILED) {
        close(fd);
        return NULL;
    }
    sim_ipc_claim(fd, h->offset, h->span);
    *ret_fd = fd;
    return p;
}

/* The context has this handle open already? */
static struct sim_block *find_open(const struct sim_context *c, const struct handle *h)
{
    for (struct sim_block *b = sim_block_next(0); b; b = sim_block_next(b->range.start + 1))
        if (b->kind == SIM_BLOCK_IPC && b->context == c && memcmp(b->backing, h, sizeof *h) == 0) return b;
    return NULL;
}

static CUresult map(struct sim_context *c, const struct handle *h, enum sim_fn fn, struct sim_block **ret_block)
{
    uint64_t lead = 0, length = 0;
    int fd = -1;
    struct opened *o = malloc(sizeof *o);
    char *p = o ? map_remote(h, &fd, &lead, &length) : NULL;
    struct sim_block *b = p ? sim_block_new(SIM_BLOCK_IPC, (uint64_t)(uintptr_t)p + lead, h->span, h->size, fn) : NULL;
    if (!b) {
        if (p) munmap(p, length);
        if (p) close(fd);
        free(o);
        return p || !o ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_MAP_FAILED;
    }
    *o = (struct opened){ *h, 1, fd };
    b->context = c;
    b->device = c->device;
    b->backing = o;
    b->backing_offset = lead;
    *ret_block = b;
    return CUDA_SUCCESS;
}

void sim_ipc_release(struct sim_block *b, enum sim_fn fn)
{
    uint64_t start = b->range.start - b->backing_offset, length = b->range.size + b->backing_offset;
    struct opened *o = b->backing;
    b->backing = NULL;
    sim_block_unmap(b, fn);
    sim_block_retire(b);
    munmap((void *)(uintptr_t)start, length);
    sim_ipc_disclaim(o->fd, o->handle.offset, o->handle.span); /* others may have a copy of the descriptor */
    close(o->fd);
    free(o);
}

static CUresult open_handle(CUdeviceptr *dptr, const CUipcMemHandle *handle, unsigned flags, enum sim_fn fn)
{
    struct sim_context *c;
    struct handle h;
    memcpy(&h, handle, sizeof h);
    if (!dptr || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS || memcmp(h.magic, magic, sizeof magic) != 0)
        return sim_log_refused(fn, CUDA_ERROR_INVALID_VALUE);
    if (h.pid == getpid()) return sim_log_refused(fn, CUDA_ERROR_INVALID_CONTEXT); /* not within one process */
    sim_lock();
    CUresult result = sim_context_current(&c);
    struct sim_block *b = result == CUDA_SUCCESS ? find_open(c, &h) : NULL;
    if (b) ((struct opened *)b->backing)->count++;
    else if (result == CUDA_SUCCESS) result = map(c, &h, fn, &b);
    if (b) *dptr = b->range.start;
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
    bool fits = b && b->kind == SIM_BLOCK_IPC && !b->pool;
    if (fits && --((struct opened *)b->backing)->count == 0) {
        sim_order_released(b); /* no page says that it waits for anything */
        sim_ipc_release(b, SIM_FN_cuIpcCloseMemHandle);
    }
    sim_unlock();
    CUresult result = fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    sim_log_plain(SIM_FN_cuIpcCloseMemHandle, result, dptr);
    return result;
}
