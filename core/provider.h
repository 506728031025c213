/* A provider context ready to use as a pin source: its end waits until no queued release needs it (nxmem spec 15.5). Owns
 * its count. Any thread; takes NXM_RANK_ALLOCATOR inside.
 *
 *   accepting -> retired (no more pins) -> idle (the last pin is gone; for good)
 */
#ifndef NXM_PROVIDER_H
#define NXM_PROVIDER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lock.h"
#include "pins.h"
#include "result.h"

/* For core/provider.c only. */
struct nxm_provider {
    atomic_uint references;
    struct nxm_lock lock;
    pthread_cond_t idle;
    uint64_t pins;
    bool retired;
};

int nxm_provider_new(struct nxm_provider **ret_provider); /* one reference, accepting; NXM_ENOMEM */
void nxm_provider_ref(struct nxm_provider *provider);
void nxm_provider_unref(struct nxm_provider *provider); /* takes NULL */

bool nxm_provider_pin(void *provider);   /* false: retired, or no further pin can be counted */
void nxm_provider_unpin(void *provider); /* of a pin that was given */
struct nxm_pin_source nxm_provider_source(struct nxm_provider *provider); /* borrows it */

void nxm_provider_retire(struct nxm_provider *provider); /* from now on no pin is given */
void nxm_provider_wait(struct nxm_provider *provider);   /* blocks while there is a pin; never inside a plugin's call */
uint64_t nxm_provider_pins(struct nxm_provider *provider);

#endif
