#include "provider.h"

#include <stddef.h>

#include "mem.h"

int nxm_provider_new(struct nxm_provider **ret_provider)
{
    struct nxm_provider *provider = nxm_mem_new(sizeof *provider);

    if (provider == NULL)
        return NXM_ENOMEM;
    atomic_init(&provider->references, 1);
    nxm_lock_init(&provider->lock, NXM_RANK_ALLOCATOR);
    pthread_cond_init(&provider->idle, NULL);
    *ret_provider = provider;
    return NXM_OK;
}

void nxm_provider_ref(struct nxm_provider *provider)
{
    atomic_fetch_add_explicit(&provider->references, 1, memory_order_relaxed);
}

void nxm_provider_unref(struct nxm_provider *provider)
{
    if (provider == NULL || atomic_fetch_sub_explicit(&provider->references, 1, memory_order_acq_rel) != 1)
        return;
    pthread_cond_destroy(&provider->idle);
    nxm_lock_clear(&provider->lock);
    nxm_mem_free(provider);
}

bool nxm_provider_pin(void *context)
{
    struct nxm_provider *provider = context;
    bool given;

    nxm_lock_acquire(&provider->lock);
    given = !provider->retired && provider->pins < UINT64_MAX;
    provider->pins += given;
    nxm_lock_release(&provider->lock);
    return given;
}

void nxm_provider_unpin(void *context)
{
    struct nxm_provider *provider = context;

    nxm_lock_acquire(&provider->lock);
    if (--provider->pins == 0)
        pthread_cond_broadcast(&provider->idle);
    nxm_lock_release(&provider->lock);
}

struct nxm_pin_source nxm_provider_source(struct nxm_provider *provider)
{
    return (struct nxm_pin_source){ .pin = nxm_provider_pin, .unpin = nxm_provider_unpin, .context = provider };
}

void nxm_provider_retire(struct nxm_provider *provider)
{
    nxm_lock_acquire(&provider->lock);
    provider->retired = true;
    nxm_lock_release(&provider->lock);
}

void nxm_provider_wait(struct nxm_provider *provider)
{
    nxm_lock_acquire(&provider->lock);
    while (provider->pins != 0)
        pthread_cond_wait(&provider->idle, &provider->lock.mutex);
    nxm_lock_release(&provider->lock);
}

uint64_t nxm_provider_pins(struct nxm_provider *provider)
{
    uint64_t pins;

    nxm_lock_acquire(&provider->lock);
    pins = provider->pins;
    nxm_lock_release(&provider->lock);
    return pins;
}
