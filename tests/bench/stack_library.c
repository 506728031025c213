#include "stack_library.h"

#include <execinfo.h>

/* For its statics: the interning without the walk. */
#include "core/stack.c"

#define EXPORT __attribute__((visibility("default")))

EXPORT void bench_prepare(void)
{
    nxm_stack_prepare();
}

EXPORT uint32_t bench_walk(unsigned depth)
{
    struct nxm_registers here;
    struct nxm_trace trace;

    NXM_REGISTERS_HERE(here);
    return nxm_unwind(&here, depth, true, &trace) ? trace.count : 0;
}

EXPORT uint32_t bench_chain(unsigned depth)
{
    struct nxm_registers here;
    struct nxm_trace trace;

    NXM_REGISTERS_HERE(here);
    nxm_unwind_frame_pointers(&here, depth, true, &trace);
    return trace.count;
}

EXPORT uint32_t bench_libc(unsigned depth)
{
    void *frames[NXM_TRACE_MAX + 1];
    int count = backtrace(frames, (int)depth + 1); /* and this one */

    return count < 1 ? 0 : (uint32_t)count - 1;
}

EXPORT uint32_t bench_capture(unsigned depth)
{
    return nxm_stack_capture(depth);
}

EXPORT uint32_t bench_intern(unsigned depth)
{
    static struct nxm_trace trace;
    struct nxm_registers here;

    NXM_REGISTERS_HERE(here);
    if (trace.count != depth)
        nxm_trace_take(&here, depth, &trace);
    return intern(&trace);
}
