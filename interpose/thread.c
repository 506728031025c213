#include "thread.h"

#include <stdatomic.h>

#include "calm.h"

__thread struct nxm_thread nxm_thread __attribute__((tls_model("initial-exec"))) = { .place = { .calm = NXM_NEVER_CALM } };

uint32_t nxm_thread_number(void)
{
    static _Atomic uint32_t last;

    if (nxm_thread.number == 0)
        nxm_thread.number = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
    return nxm_thread.number;
}
