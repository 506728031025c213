/* How far the stack that a thread stands on may be read, upwards from a stack pointer: a program's stack, a thread's, a signal's,
 * a coroutine's. Owns what each thread found out last; no lock, no malloc. A page costs one system call when it is first met.
 *
 * What was found stays believed while the thread stands in it: where a shorter stack comes to lie at the same place, only rules that lead
 * off it (damaged ones) would read beyond. Spans end where memory that can be read does, or where the C library keeps the thread's own record, which is above its stack.
 */
#ifndef NXM_STACK_SPAN_H
#define NXM_STACK_SPAN_H

#include <stdbool.h>
#include <stdint.h>

/* What a thread found last. Initial-exec, and small. */
struct nxm_stack_span {
    uint64_t start, end; /* every page of it could be read; empty when start == end */
};

struct nxm_stack_spans {
    struct nxm_stack_span last, before; /* a signal's stack beside the thread's, two coroutines */
    uint64_t known_end;                 /* of the last one, less the thread's record */
    volatile int busy; /* a signal handler that finds this set makes do without what may be half-written */
};

extern __thread struct nxm_stack_spans nxm_stack_spans __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* The end of the span that the stack pointer lies in, the span made to reach `wanted` if it can: then it is that or more. 0: it cannot
 * be read. */
uint64_t nxm_stack_span_reach(uint64_t sp, uint64_t wanted);

/* The same for the next word. At least 8 above `sp`, or 0. */
static inline uint64_t nxm_stack_span_end(uint64_t sp)
{
    uint64_t end;

    if (sp >= nxm_stack_spans.last.start && sp + 8 <= nxm_stack_spans.known_end && nxm_stack_spans.busy == 0)
        return nxm_stack_spans.known_end;
    end = nxm_stack_span_reach(sp, sp + 8);
    return end >= sp && end - sp >= 8 ? end : 0;
}

/* Whether memory can be read there: asks the kernel. */
bool nxm_memory_is_readable(uint64_t address);

#endif
