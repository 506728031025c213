/* Pools between processes. What is exported of a pool is a small file that says where its owner keeps the memory; a
 * pointer is exported as its place there. An imported pool allocates nothing; a pointer imported from it is a mapping,
 * freed like memory of a pool. */
#include "block.h"
#include "context.h"
#include "device.h"
#include "ipc.h"
#include "log.h"
#include "pool.h"
#include "state.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096 };

struct pool_file {
    char magic[16];
    uint64_t pool; /* its id in the owner */
    int32_t pid, fd, ordinal, spare;
};

struct pointer_data {
    char magic[16];
    uint64_t pool, offset, span, size;
};

_Static_assert(sizeof(struct pointer_data) <= sizeof(CUmemPoolPtrExportData), "fits");

static const char pool_magic[16] = "simcuda-pool", pointer_magic[16] = "simcuda-pointer";

/* --- the owner ------------------------------------------------------------------------------------------------ */

static int describe(const struct sim_pool *p)
{
    struct pool_file file = { .pool = p->object.id, .pid = getpid(), .fd = p->device->arena.fd,
                              .ordinal = p->device->physical };
    memcpy(file.magic, pool_magic, sizeof file.magic);
    int fd = memfd_create("simcuda-pool", MFD_CLOEXEC);
    if (fd < 0 || pwrite(fd, &file, sizeof file, 0) == (ssize_t)sizeof file) return fd;
    close(fd);
    return -1;
}

CUresult cuMemPoolExportToShareableHandle(void *handle, CUmemoryPool pool, CUmemAllocationHandleType type,
                                          unsigned long long flags)
{
    SIM_ENTER(cuMemPoolExportToShareableHandle);
    if (!handle || flags) return sim_log_refused(SIM_FN_cuMemPoolExportToShareableHandle, CUDA_ERROR_INVALID_VALUE);
    sim_lock();
    struct sim_pool *p = sim_object_find(pool, SIM_POOL);
    CUresult result = p && !p->imported && (p->handle_types & type) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS && p->fd < 0) p->fd = describe(p);
    int fd = result == CUDA_SUCCESS ? dup(p->fd) : -1;
    sim_unlock();
    if (result == CUDA_SUCCESS && fd < 0) result = CUDA_ERROR_OPERATING_SYSTEM;
    if (result == CUDA_SUCCESS) *(int *)handle = fd;
    sim_log_plain(SIM_FN_cuMemPoolExportToShareableHandle, result, (uint64_t)(uintptr_t)pool);
    return result;
}

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *data, CUdeviceptr ptr)
{
    SIM_ENTER(cuMemPoolExportPointer);
    if (!data) return sim_log_refused(SIM_FN_cuMemPoolExportPointer, CUDA_ERROR_INVALID_VALUE);
    sim_lock();
    struct sim_block *b = sim_block_at(ptr);
    bool shared = b && b->kind == SIM_BLOCK_ASYNC && b->pool->handle_types;
    if (shared) {
        struct pointer_data d = { .pool = b->pool->object.id, .offset = ptr - b->device->arena.base,
                                  .span = b->range.size, .size = b->size };
        memcpy(d.magic, pointer_magic, sizeof d.magic);
        memset(data, 0, sizeof *data);
        memcpy(data, &d, sizeof d);
        b->exported = true;
    }
    sim_unlock();
    CUresult result = shared ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    sim_log_plain(SIM_FN_cuMemPoolExportPointer, result, ptr);
    return result;
}

/* --- the importer --------------------------------------------------------------------------------------------- */

/* The owner's memory, or -1. */
static int open_memory(int fd, struct pool_file *ret_file)
{
    char path[64];
    if (pread(fd, ret_file, sizeof *ret_file, 0) != (ssize_t)sizeof *ret_file) return -1;
    if (memcmp(ret_file->magic, pool_magic, sizeof pool_magic) != 0) return -1;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", ret_file->pid, ret_file->fd);
    return open(path, O_RDWR | O_CLOEXEC);
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool, void *handle, CUmemAllocationHandleType type,
                                            unsigned long long flags)
{
    SIM_ENTER(cuMemPoolImportFromShareableHandle);
    struct pool_file file;
    if (!pool || flags) return sim_log_refused(SIM_FN_cuMemPoolImportFromShareableHandle, CUDA_ERROR_INVALID_VALUE);
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return sim_log_refused(SIM_FN_cuMemPoolImportFromShareableHandle, CUDA_ERROR_NOT_SUPPORTED);
    int memory = open_memory((int)(intptr_t)handle, &file);
    struct sim_device *d = memory >= 0 ? sim_device_physical(file.ordinal) : NULL;
    if (!d) {
        if (memory >= 0) close(memory);
        return sim_log_refused(SIM_FN_cuMemPoolImportFromShareableHandle, CUDA_ERROR_INVALID_VALUE);
    }
    sim_lock();
    struct sim_pool *p = sim_pool_new(d, false, false);
    if (p) {
        p->imported = true;
        p->fd = memory;
        p->owner_id = file.pool;
        *pool = (CUmemoryPool)p;
    }
    sim_unlock();
    if (!p) close(memory);
    CUresult result = p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    sim_log_plain(SIM_FN_cuMemPoolImportFromShareableHandle, result, (uint64_t)(uintptr_t)p);
    return result;
}

static struct sim_block *import(struct sim_pool *p, const struct pointer_data *d)
{
    uint64_t lead = d->offset % PAGE;
    char *at = mmap(NULL, lead + d->span, PROT_READ | PROT_WRITE, MAP_SHARED, p->fd, (off_t)(d->offset - lead));
    if (at == MAP_FAILED) return NULL;
    struct sim_block *b = sim_block_new(SIM_BLOCK_IPC, (uint64_t)(uintptr_t)at + lead, d->span, d->size,
                                        SIM_FN_cuMemPoolImportPointer);
    if (!b) {
        munmap(at, lead + d->span);
        return NULL;
    }
    b->device = p->device;
    b->pool = p;
    b->backing_offset = lead;
    b->backing_start = d->offset;
    sim_ipc_claim(p->fd, d->offset, d->span);
    sim_object_ref(&p->object);
    return b;
}

void sim_pool_import_end(struct sim_block *b)
{
    struct sim_pool *p = b->pool;
    uint64_t lead = b->backing_offset, start = b->range.start - lead, length = b->range.size + lead;
    uint64_t owner_offset = b->backing_start;
    sim_block_retire(b);
    munmap((void *)(uintptr_t)start, length);
    sim_ipc_disclaim(p->fd, owner_offset, length - lead);
    sim_object_unref(&p->object);
}

CUresult cuMemPoolImportPointer(CUdeviceptr *ptr, CUmemoryPool pool, CUmemPoolPtrExportData *data)
{
    SIM_ENTER(cuMemPoolImportPointer);
    struct pointer_data d;
    struct sim_block *b = NULL;
    if (!ptr || !data) return sim_log_refused(SIM_FN_cuMemPoolImportPointer, CUDA_ERROR_INVALID_VALUE);
    memcpy(&d, data, sizeof d);
    sim_lock();
    struct sim_pool *p = sim_object_find(pool, SIM_POOL);
    bool fits = p && p->imported && memcmp(d.magic, pointer_magic, sizeof pointer_magic) == 0 && d.pool == p->owner_id;
    CUresult result = fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (fits && !(b = import(p, &d))) result = CUDA_ERROR_OUT_OF_MEMORY;
    if (b) *ptr = b->range.start;
    sim_unlock();
    sim_log_call(SIM_FN_cuMemPoolImportPointer, result, b ? *ptr : 0, "size", fits ? d.size : 0, NULL, 0);
    return result;
}
