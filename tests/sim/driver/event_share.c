#include "event_share.h"

#include "context.h"
#include "log.h"
#include "state.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

struct sim_event_page {
    int fd;
    struct shared {
        atomic_ullong recorded, happened;
    } *shared;
};

struct handle {
    char magic[16];
    int32_t pid, fd;
};

_Static_assert(sizeof(struct handle) <= sizeof(CUipcEventHandle), "fits");

static const char magic[16] = "simcuda-event";

/* Takes the descriptor over. */
static struct sim_event_page *page_open(int fd)
{
    struct sim_event_page *p = fd >= 0 ? malloc(sizeof *p) : NULL;
    void *at = p ? mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (at == MAP_FAILED) {
        free(p);
        if (fd >= 0) close(fd);
        return NULL;
    }
    *p = (struct sim_event_page){ fd, at };
    return p;
}

struct sim_event_page *sim_event_page_new(void)
{
    int fd = memfd_create("simcuda-event", MFD_CLOEXEC);
    if (fd >= 0 && ftruncate(fd, sizeof(struct shared)) != 0) {
        close(fd);
        fd = -1;
    }
    return page_open(fd);
}

void sim_event_page_close(struct sim_event_page *p)
{
    munmap(p->shared, sizeof *p->shared);
    close(p->fd);
    free(p);
}

uint64_t sim_event_page_record(struct sim_event_page *p)
{
    return atomic_fetch_add(&p->shared->recorded, 1) + 1;
}

void sim_event_page_done(struct sim_event_page *p, uint64_t record)
{
    unsigned long long seen = atomic_load(&p->shared->happened);
    while (seen < record && !atomic_compare_exchange_weak(&p->shared->happened, &seen, record)) continue;
}

uint64_t sim_event_page_latest(const struct sim_event_page *p)
{
    return atomic_load(&p->shared->recorded);
}

bool sim_event_page_passed(const struct sim_event_page *p, uint64_t record)
{
    return atomic_load(&p->shared->happened) >= record;
}

void sim_event_page_wait(const struct sim_event_page *p, uint64_t record)
{
    while (!sim_event_page_passed(p, record)) nanosleep(&(struct timespec){ 0, 200000 }, NULL);
}

bool sim_event_is_remote(const struct sim_event *e)
{
    return e->page && sim_event_page_latest(e->page) != e->page_record;
}

/* --- entry points --------------------------------------------------------------------------------------------- */

CUresult cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent event)
{
    SIM_ENTER(cuIpcGetEventHandle);
    if (!handle) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_event *e = sim_object_find(event, SIM_EVENT);
    CUresult result = e && (e->flags & CU_EVENT_INTERPROCESS) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
    if (result == CUDA_SUCCESS && e->is_import) result = CUDA_ERROR_INVALID_HANDLE;
    if (result == CUDA_SUCCESS) {
        struct handle h = { .pid = getpid(), .fd = e->page->fd };
        memcpy(h.magic, magic, sizeof magic);
        memset(handle, 0, sizeof *handle);
        memcpy(handle, &h, sizeof h);
    }
    sim_unlock();
    return result;
}

CUresult cuIpcOpenEventHandle(CUevent *event, CUipcEventHandle handle)
{
    SIM_ENTER(cuIpcOpenEventHandle);
    struct sim_context *c;
    struct handle h;
    char path[64];
    memcpy(&h, &handle, sizeof h);
    if (!event || memcmp(h.magic, magic, sizeof magic) != 0) return CUDA_ERROR_INVALID_VALUE;
    if (h.pid == getpid()) return CUDA_ERROR_INVALID_CONTEXT; /* not within one process */
    snprintf(path, sizeof path, "/proc/%d/fd/%d", h.pid, h.fd);
    sim_lock();
    CUresult result = sim_context_current(&c);
    struct sim_event_page *page = result == CUDA_SUCCESS ? page_open(open(path, O_RDWR | O_CLOEXEC)) : NULL;
    if (result == CUDA_SUCCESS && !page) result = CUDA_ERROR_MAP_FAILED;
    struct sim_event *e = page ? sim_event_new(c, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING) : NULL;
    if (e) {
        e->page = page;
        e->is_import = true;
        *event = (CUevent)e;
    } else if (page) {
        sim_event_page_close(page);
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    sim_unlock();
    return result;
}
