/* Kernels of the control interface: unlike those of the program, they say what memory they touch. */
#include "api.h"

#pragma GCC visibility push(default)
#include "../simcuda.h"
#pragma GCC visibility pop

#include "block.h"
#include "context.h"
#include "finding.h"
#include "peer.h"
#include "schedule.h"
#include "state.h"
#include "stream.h"

#include <unistd.h>

static void run_touch(struct sim_work *w)
{
    /* a byte at each end: enough for a page that is not there, and for a sanitizer's eye */
    volatile uint8_t *p = (volatile uint8_t *)(uintptr_t)w->u.kernel.address;
    p[0] = p[0];
    p[w->u.kernel.bytes - 1] = p[w->u.kernel.bytes - 1];
}

static void run_until(struct sim_work *w)
{
    int expected = 0;
    __atomic_compare_exchange_n(w->u.kernel.go, &expected, 1, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    while (__atomic_load_n(w->u.kernel.go, __ATOMIC_ACQUIRE) != 2) usleep(50);
}

static void judge_reach(const struct sim_stream *s, struct sim_work *w)
{
    for (unsigned i = 0; i < w->touch_count && s->context; i++)
        if (!sim_peer_reaches(s->context, w->touches[i])) {
            sim_find_call(SIM_FINDING_no_peer_access, w->touches[i], w->touches[i]->range.start);
            w->harmed = true;
        }
}

/* A kernel on memory that is nobody's is launched all the same, and does nothing. */
static void describe(const struct sim_stream *s, struct sim_work *w, uint64_t address, uint64_t bytes, int *go)
{
    if (sim_work_touch(w, address, bytes) != CUDA_SUCCESS || !w->touch_count) {
        if (!w->harmed) sim_find_call(SIM_FINDING_unallocated, NULL, address);
        return;
    }
    w->run = go ? run_until : run_touch;
    w->calls_host = w->lingers = go != NULL; /* it waits for the program: not on the program's thread */
    w->u.kernel.address = address;
    w->u.kernel.bytes = bytes;
    w->u.kernel.go = go;
    judge_reach(s, w);
}

static CUresult launch(CUstream h, uint64_t address, uint64_t bytes, int *go)
{
    struct sim_stream *s;
    if (!bytes) return CUDA_ERROR_INVALID_VALUE;
    sim_thread.call = SIM_FN_cuLaunchKernel;
    sim_schedule_breathe();
    sim_lock();
    CUresult result = sim_stream_get(h, SIM_LEGACY, &s);
    struct sim_work *w = result == CUDA_SUCCESS ? sim_work_new(SIM_FN_cuLaunchKernel) : NULL;
    if (w) {
        describe(s, w, address, bytes, go);
        result = sim_stream_submit(s, w);
    } else if (result == CUDA_SUCCESS) {
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    sim_unlock();
    return result;
}

int sim_launch_touch(sim_stream_t h, uint64_t address, uint64_t bytes)
{
    return (int)launch(h, address, bytes, NULL);
}

int sim_launch_until(sim_stream_t h, uint64_t address, uint64_t bytes, int *go)
{
    return go ? (int)launch(h, address, bytes, go) : CUDA_ERROR_INVALID_VALUE;
}
