#include "stack_span.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define PAGE UINT64_C(4096)
#define REACH_MAX (UINT64_C(16) << 20) /* one frame longer than that is none */
#define DEEPER_MAX (UINT64_C(1) << 20)
#define FUTEX_CMP_REQUEUE_PRIVATE (4 | 128)

__thread struct nxm_stack_spans nxm_stack_spans __attribute__((tls_model("initial-exec")));

/* Both only read, and change nothing whatever lies there. The first is what valgrind takes no offence at; where it is not to be had (an
 * emulator, a sandbox), nobody is woken and nobody moved. */
static bool asked(uint64_t address)
{
    char byte;
    struct iovec to = { &byte, 1 }, from = { (void *)(uintptr_t)address, 1 };
    uint32_t other = 0;

    if (syscall(SYS_process_vm_readv, getpid(), &to, 1, &from, 1, 0) == 1)
        return true;
    if (errno == EFAULT)
        return false;
    return syscall(SYS_futex, address & ~UINT64_C(3), FUTEX_CMP_REQUEUE_PRIVATE, 0, 0, &other, 0) >= 0 || errno == EAGAIN;
}

bool nxm_memory_is_readable(uint64_t address)
{
    int error = errno;
    bool readable = asked(address);

    errno = error;
    return readable;
}

static uint64_t page_of(uint64_t address)
{
    return address & ~(PAGE - 1);
}

/* How far from `from`, the start of a page, all pages can be read, towards `to`. */
static uint64_t readable_until(uint64_t from, uint64_t to)
{
    while (from < to && nxm_memory_is_readable(from))
        from += PAGE;
    return from;
}

static bool holds(const struct nxm_stack_span *span, uint64_t sp)
{
    return sp >= span->start && sp < span->end;
}

/* The thread's record lies above its stack; that of the first thread lies elsewhere. */
static uint64_t capped(uint64_t sp, uint64_t end)
{
    uint64_t record = (uint64_t)pthread_self();

    return sp < record && record < end ? record & ~UINT64_C(7) : end;
}

/* Makes `last` the span of the stack pointer. */
static bool find(struct nxm_stack_spans *spans, uint64_t sp)
{
    uint64_t page = page_of(sp);
    struct nxm_stack_span before = spans->last;

    if (holds(&spans->last, sp))
        return true;
    if (holds(&spans->before, sp)) {
        spans->last = spans->before;
        spans->before = before;
        return true;
    }
    if (page < before.start && before.start - page <= DEEPER_MAX && readable_until(page, before.start) == before.start) {
        spans->last.start = page;
        return true;
    }
    if (!nxm_memory_is_readable(page))
        return false;
    spans->before = before;
    spans->last = (struct nxm_stack_span){ page, page + PAGE };
    return true;
}

static uint64_t reach(struct nxm_stack_spans *spans, uint64_t sp, uint64_t wanted)
{
    if (!find(spans, sp)) {
        spans->known_end = 0;
        return 0;
    }
    if (wanted > spans->last.end && wanted - spans->last.end <= REACH_MAX)
        spans->last.end = readable_until(spans->last.end, wanted);
    spans->known_end = capped(sp, spans->last.end);
    return spans->known_end;
}

uint64_t nxm_stack_span_reach(uint64_t sp, uint64_t wanted)
{
    struct nxm_stack_spans own = { .busy = 0 };
    uint64_t end;

    if (nxm_stack_spans.busy)
        return reach(&own, sp, wanted);
    nxm_stack_spans.busy = 1;
    atomic_signal_fence(memory_order_seq_cst);
    end = reach(&nxm_stack_spans, sp, wanted);
    atomic_signal_fence(memory_order_seq_cst);
    nxm_stack_spans.busy = 0;
    return end;
}
