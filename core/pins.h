/* Pins on a provider context: what keeps the context's teardown waiting while a release is queued in a plugin (nxmem
 * spec 15.5). Owns nothing: the source is the embedder's. Any thread; no locks (none may be held: the source is foreign).
 *
 * One pin for each queued release, taken before the plugin is entered and given back when its completion has ended, or at
 * once when the plugin refuses. Pins of one source are interchangeable. An allocator that is gone leaves its pins with what
 * is still queued.
 */
#ifndef NXM_PINS_H
#define NXM_PINS_H

#include <stdbool.h>
#include <stddef.h>

#include "held.h"

struct nxm_pin_source {
    bool (*pin)(void *context); /* false: the context accepts no more work. NULL: there is no context, and no pin is needed */
    void (*unpin)(void *context);
    void *context; /* borrowed; outlives every pin */
};

static inline bool nxm_pins_take(const struct nxm_pin_source *source)
{
    if (source->pin == NULL)
        return true;
    nxm_lock_assert_none();
    return source->pin(source->context);
}

static inline void nxm_pins_give(const struct nxm_pin_source *source)
{
    if (source->pin == NULL)
        return;
    nxm_lock_assert_none();
    source->unpin(source->context);
}

#endif
