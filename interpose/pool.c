#include "pool.h"

#include <stdatomic.h>
#include <stddef.h>

#include "real.h"

#define DEVICES 64

static CUmemoryPool _Atomic defaults[DEVICES]; /* NULL: not asked yet */
static CUmemoryPool _Atomic chosen[DEVICES];   /* NULL: the default one */

static _Atomic uint64_t used[DEVICES], used_high[DEVICES];

CUmemoryPool nxm_pool_default(int device)
{
    CUmemoryPool pool = NULL;

    if (device < 0 || device >= DEVICES || !nxm_real.cuDeviceGetDefaultMemPool)
        return NULL;
    pool = atomic_load(&defaults[device]);
    if (!pool && nxm_real.cuDeviceGetDefaultMemPool(&pool, device) == CUDA_SUCCESS)
        atomic_store(&defaults[device], pool);
    return pool;
}

int nxm_pool_default_of(CUmemoryPool pool)
{
    for (int i = 0; pool && i < DEVICES; i++) {
        CUmemoryPool of_device = nxm_pool_default(i);
        if (!of_device || of_device == pool)
            return of_device ? i : -1; /* no such device, and no later one */
    }
    return -1;
}

bool nxm_pool_is_default(CUmemoryPool pool, int device)
{
    return pool && pool == nxm_pool_default(device);
}

bool nxm_pool_replaced(int device)
{
    return device < 0 || device >= DEVICES || atomic_load(&chosen[device]) != NULL;
}

void nxm_pool_chosen(int device, CUmemoryPool pool)
{
    if (device >= 0 && device < DEVICES)
        atomic_store(&chosen[device], nxm_pool_is_default(pool, device) ? NULL : pool);
}

void nxm_pool_destroyed(CUmemoryPool pool)
{
    for (int i = 0; i < DEVICES; i++) {
        CUmemoryPool was = pool;
        atomic_compare_exchange_strong(&chosen[i], &was, NULL);
    }
}

/* A pool hands out whole units. */
static uint64_t rounded(uint64_t bytes)
{
    const uint64_t unit = 512;

    return (bytes + unit - 1) / unit * unit;
}

static bool is_counted(int device)
{
    return device >= 0 && device < DEVICES;
}

void nxm_pool_used(int device, uint64_t bytes)
{
    if (!is_counted(device))
        return;
    bytes = rounded(bytes);
    uint64_t now = atomic_fetch_add(&used[device], bytes) + bytes, high = atomic_load(&used_high[device]);
    while (high < now && !atomic_compare_exchange_weak(&used_high[device], &high, now))
        ;
}

void nxm_pool_unused(int device, uint64_t bytes)
{
    if (is_counted(device))
        atomic_fetch_sub(&used[device], rounded(bytes));
}

uint64_t nxm_pool_used_now(int device)
{
    return is_counted(device) ? atomic_load(&used[device]) : 0;
}

uint64_t nxm_pool_used_high(int device)
{
    return is_counted(device) ? atomic_load(&used_high[device]) : 0;
}

void nxm_pool_high_from_now(int device)
{
    if (is_counted(device))
        atomic_store(&used_high[device], atomic_load(&used[device]));
}
