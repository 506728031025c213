#include "exit.h"

#include "state.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static atomic_bool unloading;

bool rt_is_unloading(void)
{
    return atomic_load_explicit(&unloading, memory_order_relaxed);
}

/* Whether the real runtime gives its primary contexts back here or leaves them to the driver is not documented, so it is
 * a setting: a tool must be right under both. */
__attribute__((destructor)) static void unload(void)
{
    const char *releases = getenv("SIMCUDA_RUNTIME_RELEASES");

    if (releases && strcmp(releases, "1") == 0) /* the driver says what else there is to say */
        rt_release_primaries();
    atomic_store(&unloading, true);
}
