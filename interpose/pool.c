#include "pool.h"

#include <stdatomic.h>
#include <stddef.h>

#include "real.h"

#define DEVICES 64

static CUmemoryPool _Atomic defaults[DEVICES]; /* NULL: not asked yet */
static CUmemoryPool _Atomic chosen[DEVICES];   /* NULL: the default one */

static CUmemoryPool default_pool(int device)
{
    CUmemoryPool pool = NULL;

    if (device < 0 || device >= DEVICES || !nxm_real.cuDeviceGetDefaultMemPool)
        return NULL;
    pool = atomic_load(&defaults[device]);
    if (!pool && nxm_real.cuDeviceGetDefaultMemPool(&pool, device) == CUDA_SUCCESS)
        atomic_store(&defaults[device], pool);
    return pool;
}

bool nxm_pool_is_default(CUmemoryPool pool, int device)
{
    return pool && pool == default_pool(device);
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
