#include "lifecycle.h"

#include <stdatomic.h>
#include <unistd.h>

#include "calm.h"
#include "core/log.h"
#include "core/text.h"
#include "door.h"
#include "exit.h"
#include "forks.h"
#include "lane.h"
#include "peers.h"
#include "process.h"
#include "real.h"
#include "scope.h"
#include "thread.h"
#include "turn.h"

static struct nxm_turn first_use;
static _Atomic int starting_pid; /* who has the turn */

/* Which of our rows this driver has; the others are never invented. */
static void say_what_is_hooked(void)
{
    char missing[512];
    struct nxm_text text;
    unsigned have = 0, rows = 0;

    nxm_text_init(&text, missing, sizeof missing);
#define DRIVER(symbol, like, class_) \
    rows++; \
    if (nxm_real.symbol) \
        have++; \
    else \
        nxm_text_printf(&text, " %s", #symbol); \
    nxm_log(NXM_LOG_DEBUG, "%s %s", #symbol, nxm_real.symbol ? "hooked" : "not in this driver");
#include "cuda_api.def"
    nxm_log(NXM_LOG_INFO, "%u of %u driver entry points hooked%s%s", have, rows, have < rows ? "; this driver lacks" : "",
            missing);
}

static void start(void)
{
    if (!nxm_process_prepare())
        return;
    nxm_scope_reclaim_with(nxm_lane_reclaim);
    nxm_scope_greet_with(nxm_peers_tell);
    nxm_forks_hold();
    nxm_process_load_plugin();
    nxm_exit_register(); /* after the plugin, so that X1 runs before the plugin's own exit handlers */
    nxm_forks_let();
    nxm_log(NXM_LOG_INFO, "version %s, plugin %s", NXM_VERSION, nxm_plugin() ? nxm_plugin_path() : "none");
    say_what_is_hooked();
    if (nxm_plugin())
        nxm_calm_begin();
}

static bool begin_once(void)
{
    int starter = atomic_load(&starting_pid);

    if (nxm_turn_is_done(&first_use))
        return true;
    if (starter != 0 && starter != getpid())
        return false; /* forked meanwhile: the thread that would finish is not in this process */
    if (nxm_turn_take(&first_use) == NXM_TURN_YOURS) {
        atomic_store(&starting_pid, getpid());
        start();
        nxm_turn_finish(&first_use);
    }
    return nxm_turn_is_done(&first_use);
}

/* The thread is counted, and not served: it called from the plugin, or the door is closed. */
static __attribute__((noinline)) enum nxm_mode turned_away(bool nested)
{
    nxm_door_count_out();
    if (nested)
        return NXM_MODE_NESTED;
    nxm_thread.inside++; /* in our tables, if no more in the plugin: no report from a signal handler here */
    return NXM_MODE_LATE;
}

static inline enum nxm_mode enter(const void *caller, uint32_t here)
{
    nxm_spread_add_at(&nxm_door_inside, here, NXM_DOOR_COUNT, 1);
    /* Looked at while counted: whoever unloads the plugin takes the handle first and waits for this to be over. */
    bool nested = nxm_plugin_contains(caller);
    if (__builtin_expect(nested || nxm_door_is_closed(), 0))
        return turned_away(nested);
    nxm_thread.inside++;
    return NXM_MODE_SERVE;
}

/* Not the program's call, or the first of its thread, or of the process. */
static __attribute__((noinline)) enum nxm_mode enter_otherwise(const void *caller, bool begin)
{
    if (nxm_thread.foreign != 0)
        return NXM_MODE_NESTED;
    if (!nxm_turn_is_done(&first_use) && (nxm_is_child() || !begin || !begin_once()))
        return NXM_MODE_NATIVE;
    if (nxm_is_child()) /* or the turn has ended in "not at all" */
        return NXM_MODE_NATIVE;
    return enter(caller, nxm_spread_assign()); /* in nothing of ours is it counted yet */
}

enum nxm_mode nxm_enter(const void *caller, bool begin)
{
    uint32_t here = nxm_spread_here();

    if (__builtin_expect(here == 0 || nxm_thread.foreign != 0 || !nxm_turn_is_done(&first_use) || !nxm_is_surely_ours(), 0))
        return enter_otherwise(caller, begin);
    return enter(caller, here);
}

bool nxm_is_plugins_call(const void *caller)
{
    if (nxm_thread.foreign != 0)
        return true;
    if (nxm_is_child() || !nxm_plugin())
        return false;
    nxm_door_count_in(); /* as in nxm_enter: the plugin stays while it is looked at */
    bool its = nxm_plugin_contains(caller);
    nxm_door_count_out();
    return its;
}

