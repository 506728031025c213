#include "spin.h"

#include "nap.h"

#define TRIES 200
#define FIRST_NAP_NS 20000L
#define LONGEST_NAP_NS 1000000L

static void pause_a_little(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static bool taken(struct nxm_spin *spin)
{
    uint64_t turns = atomic_load_explicit(&spin->turns, memory_order_relaxed);

    return (turns & 1) == 0 && atomic_compare_exchange_weak_explicit(&spin->turns, &turns, turns + 1, memory_order_acquire, memory_order_relaxed);
}

void nxm_spin_acquire(struct nxm_spin *spin, enum nxm_lock_rank rank)
{
    long nap = FIRST_NAP_NS;

    nxm_lock_note(spin, rank);
    for (;;) {
        for (int i = 0; i < TRIES; i++) {
            if (taken(spin))
                return;
            pause_a_little();
        }
        nxm_nap(nap); /* cut short by a signal: it is tried again the sooner */
        if (nap < LONGEST_NAP_NS)
            nap *= 2;
    }
}
