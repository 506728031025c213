#include "trace.h"

#include <execinfo.h>
#include <stdatomic.h>
#include <sys/auxv.h>

#include "images.h"

#define OWN_FRAMES_MAX 24 /* of ours above the caller's */
#define FOREIGN_TOP_MAX 3 /* a sanitizer's own backtrace() stands above ours */

/* musl has it not, and must still load us: there are no stacks then. */
#pragma weak backtrace

static atomic_uintptr_t own_start, own_end;
static atomic_bool is_library; /* linked into a program, our image is the program's, and only the top of a stack is ours */
static atomic_bool prepared;
static _Atomic unsigned unwinder;

/* No "once" here: whoever waited for the first thread might hold the loader's lock that it needs. */
void nxm_trace_prepare(void)
{
    struct nxm_image own;
    void *pc;

    if (backtrace)
        (void)backtrace(&pc, 1); /* loads the unwinder */
    if (nxm_image_at((uintptr_t)&nxm_trace_prepare, &own)) {
        uintptr_t program = getauxval(AT_PHDR);
        atomic_store(&own_end, own.end);
        atomic_store(&own_start, own.start);
        atomic_store(&is_library, program < own.start || program >= own.end);
    }
    nxm_images_prepare();
    atomic_store_explicit(&prepared, true, memory_order_release);
}

bool nxm_trace_is_prepared(void)
{
    return atomic_load_explicit(&prepared, memory_order_acquire);
}

void nxm_trace_use(enum nxm_unwinder wanted)
{
    atomic_store(&unwinder, wanted);
}

/* --- by the C library -------------------------------------------------------------------------------------- */

static bool is_own(uintptr_t pc)
{
    return pc >= atomic_load_explicit(&own_start, memory_order_relaxed) &&
           pc < atomic_load_explicit(&own_end, memory_order_relaxed);
}

/* How many frames stand above the first that is of interest. */
static int own_frames(void *const *pcs, int count)
{
    int first = 0;

    while (first < count && first <= FOREIGN_TOP_MAX && !is_own((uintptr_t)pcs[first]))
        first++;
    if (first == count || first > FOREIGN_TOP_MAX)
        return 0;
    while (first < count && is_own((uintptr_t)pcs[first]))
        first++;
    return first;
}

static void take_from_libc(unsigned depth, bool all_own, struct nxm_trace *ret_trace)
{
    void *pcs[NXM_TRACE_MAX + OWN_FRAMES_MAX];
    struct nxm_images_seen seen = { .count = 0 };
    int got = 0;

    if (depth > NXM_TRACE_MAX)
        depth = NXM_TRACE_MAX;
    if (backtrace)
        got = backtrace(pcs, (int)(depth + OWN_FRAMES_MAX));
    ret_trace->count = 0;
    for (int i = own_frames(pcs, got); i < got && ret_trace->count < depth; i++) {
        uintptr_t pc = (uintptr_t)pcs[i];

        if (all_own && is_own(pc))
            continue;
        /* A return address may be the first byte of the next function or image: the call itself is one byte before. */
        const struct nxm_known_image *image = nxm_images_at(pc - 1, &seen);
        ret_trace->frames[ret_trace->count++] = nxm_frame_of(pc - 1, image != NULL ? image->number : 0);
    }
}

/* --- by what was asked for ---------------------------------------------------------------------------------- */

void nxm_trace_take(const struct nxm_registers *from, unsigned depth, struct nxm_trace *ret_trace)
{
    /* Ours also stand in the middle, where a hook of the runtime's name called the runtime: they say nothing. */
    bool all_own = atomic_load_explicit(&is_library, memory_order_relaxed);
    unsigned by = atomic_load_explicit(&unwinder, memory_order_relaxed);

    if (by == NXM_UNWINDER_FRAME_POINTERS)
        nxm_unwind_frame_pointers(from, depth, all_own, ret_trace);
    else if (by != NXM_UNWINDER_TABLES || !nxm_unwind(from, depth, all_own, ret_trace))
        take_from_libc(depth, all_own, ret_trace);
}
