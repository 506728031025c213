/* cuGetProcAddress: name, version and flags to a symbol, as cudaTypedefs.h pairs them. */
#include "api.h"
#include "future.h"
#include "state.h"

#include <string.h>

static const struct sim_entry *best(const char *base, int version, int form)
{
    const struct sim_entry *found = NULL;
    for (int i = 0; i < SIM_FN_COUNT; i++) {
        const struct sim_entry *e = &sim_entries[i];
        if (e->form != form || e->version > version || e->version > sim_settings.version) continue;
        if ((!found || e->version > found->version) && strcmp(e->base, base) == 0) found = e;
    }
    return found;
}

static bool known_later(const char *base)
{
    for (int i = 0; i < SIM_FN_COUNT; i++)
        if (sim_entries[i].version <= sim_settings.version && strcmp(sim_entries[i].base, base) == 0) return true;
    return false;
}

static CUresult resolve(const char *symbol, void **pfn, int version, cuuint64_t flags,
                        CUdriverProcAddressQueryResult *status)
{
    const cuuint64_t known = CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    if (!symbol || !pfn) return CUDA_ERROR_INVALID_VALUE;
    if ((flags & ~known) && sim_settings.version < 99000) return CUDA_ERROR_INVALID_VALUE; /* tomorrow's driver has more */
    const struct sim_entry *e = NULL;
    if (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) e = best(symbol, version, SIM_PER_THREAD);
    if (!e) e = best(symbol, version, SIM_LEGACY);
    *pfn = sim_future_address(symbol, version);
    if (!*pfn && e) *pfn = e->address;
    if (status)
        *status = *pfn ? CU_GET_PROC_ADDRESS_SUCCESS
                  : known_later(symbol) ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                                        : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return CUDA_SUCCESS;
}

CUresult cuGetProcAddress(const char *symbol, void **pfn, int version, cuuint64_t flags)
{
    CUresult refused = sim_enter_any(SIM_FN_cuGetProcAddress);
    if (refused != CUDA_SUCCESS) return refused;
    CUresult result = resolve(symbol, pfn, version, flags, NULL);
    /* the old form has nowhere else to say it */
    return result == CUDA_SUCCESS && !*pfn ? CUDA_ERROR_NOT_FOUND : result;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status)
{
    CUresult refused = sim_enter_any(SIM_FN_cuGetProcAddress_v2);
    if (refused != CUDA_SUCCESS) return refused;
    CUresult result = resolve(symbol, pfn, version, flags, status);
    return result == CUDA_SUCCESS && !*pfn && !status ? CUDA_ERROR_NOT_FOUND : result;
}
