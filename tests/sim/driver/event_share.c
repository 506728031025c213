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
    struct sim_event_page *next;
    bool open;                   /* an event has it; else it is kept for what it was behind */
    int fd;
    struct shared {
        atomic_ullong recorded, happened;
        atomic_ullong seen;      /* the latest record that a process other than its recorder saw happen */
    } *shared;
    uint64_t latest_record;      /* of this process, 0: none */
    struct sim_points latest;    /* what it was behind */
    uint64_t earlier_record;     /* the first before it that nobody was known to have seen, 0: none */
    struct sim_points earlier;   /* what that and those since were behind */
};

static struct sim_event_page *pages;
static struct sim_points given;  /* what all records were behind that another process could see */

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
    *p = (struct sim_event_page){ .next = pages, .open = true, .fd = fd, .shared = at };
    pages = p;
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

static void raise_to(atomic_ullong *value, unsigned long long to)
{
    unsigned long long is = atomic_load(value);
    while (is < to && !atomic_compare_exchange_weak(value, &is, to)) continue;
}

/* What another process saw happen it may have told the program. */
static void look(struct sim_event_page *p)
{
    uint64_t seen = atomic_load(&p->shared->seen);
    if (p->earlier_record && seen >= p->earlier_record) {
        sim_order_observe_done(&p->earlier);
        sim_points_clear(&p->earlier);
        p->earlier_record = 0;
    }
    if (p->latest_record && seen >= p->latest_record) {
        sim_order_observe_done(&p->latest);
        sim_points_clear(&p->latest);
        p->latest_record = 0;
    }
}

/* A page without an event goes when nobody can come to be told anything by it. */
static void sweep(void)
{
    for (struct sim_event_page **link = &pages, *p; (p = *link);) {
        if (p->open || p->earlier_record || p->latest_record) {
            link = &p->next;
            continue;
        }
        *link = p->next;
        munmap(p->shared, sizeof *p->shared);
        close(p->fd);
        free(p);
    }
}

void sim_event_pages_look(void)
{
    for (struct sim_event_page *p = pages; p; p = p->next) look(p);
    sweep();
}

void sim_event_page_give(struct sim_event_page *p, uint64_t record, const struct sim_points *known)
{
    look(p);
    if (p->latest_record) {
        if (!p->earlier_record) p->earlier_record = p->latest_record;
        sim_points_join(&p->earlier, &p->latest);
        sim_points_clear(&p->latest);
    }
    p->latest_record = record;
    sim_points_join(&p->latest, known);
    sim_points_join(&given, known);
}

const struct sim_points *sim_event_given(void)
{
    return &given;
}

void sim_event_page_close(struct sim_event_page *p)
{
    p->open = false;
    look(p);
    sweep();
}

uint64_t sim_event_page_record(struct sim_event_page *p)
{
    return atomic_fetch_add(&p->shared->recorded, 1) + 1;
}

void sim_event_page_done(struct sim_event_page *p, uint64_t record)
{
    raise_to(&p->shared->happened, record);
}

uint64_t sim_event_page_latest(const struct sim_event_page *p)
{
    return atomic_load(&p->shared->recorded);
}

bool sim_event_page_passed(struct sim_event_page *p, uint64_t record)
{
    if (atomic_load(&p->shared->happened) < record) return false;
    raise_to(&p->shared->seen, record);
    return true;
}

void sim_event_page_wait(struct sim_event_page *p, uint64_t record)
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
