#include "calm.h"

#include "core/log.h"
#include "core/spin.h"

static struct nxm_spin lock;
static unsigned reasons = 1; /* that it has not begun */
static uint32_t number = NXM_FIRST_CALM;

static void change(int by)
{
    nxm_spin_acquire(&lock, NXM_RANK_CALM);
    reasons += (unsigned)by;
    number = number == UINT32_MAX ? NXM_FIRST_CALM : number + 1;
    atomic_store(&atomic_load(&nxm_process_mark)[NXM_MARK_CALM], reasons == 0 ? number : 0);
    nxm_spin_release(&lock);
}

void nxm_calm_renew(void)
{
    change(0);
}

/* What an option makes of every call, a quiet one does not do. */
static bool options_are_quiet(void)
{
    const struct nxm_options *options = nxm_options();

    return options->free == NXM_FREE_SYNC && options->free_stacks == 0 && options->lane_limit == 0 && !nxm_log_shows(NXM_LOG_DEBUG) &&
           nxm_process_look() == NXM_OURS;
}

void nxm_calm_begin(void)
{
    if (options_are_quiet())
        change(-1);
}

void nxm_unrest_begin(void)
{
    change(1);
}

void nxm_unrest_end(void)
{
    change(-1);
}
