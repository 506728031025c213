#include "lost.h"

#include "context.h"
#include "state.h"

#include <stdatomic.h>
#include <string.h>

static atomic_uint lost_count; /* contexts; changed with the lock held, read without */

/* cuda.h: the process is left in an inconsistent state, any further work returns the same error; or the context cannot be
 * used any more. */
static bool costs_the_context(CUresult code)
{
    switch (code) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_CONTAINED:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_TENSOR_MEMORY_LEAK:
    case CUDA_ERROR_EXTERNAL_DEVICE: return true;
    default: return false;
    }
}

/* Names that cuGetProcAddress is asked for. */
static bool goes_on(enum sim_fn fn)
{
    static const char *const names[] = {
        "cuDeviceGet", "cuDeviceGetCount", "cuDeviceGetName", "cuDeviceGetUuid", "cuDeviceTotalMem", "cuDeviceGetAttribute",
        "cuDeviceGetProperties", "cuDeviceComputeCapability", "cuDeviceGetPCIBusId", "cuDeviceGetByPCIBusId",
        "cuDeviceCanAccessPeer", "cuDeviceGetP2PAttribute", "cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRelease",
        "cuDevicePrimaryCtxReset", "cuDevicePrimaryCtxGetState", "cuDevicePrimaryCtxSetFlags", "cuCtxCreate", "cuCtxDestroy",
        "cuCtxAttach", "cuCtxDetach", "cuCtxSetCurrent", "cuCtxGetCurrent", "cuCtxPushCurrent", "cuCtxPopCurrent",
        "cuCtxGetDevice", "cuCtxGetFlags", "cuCtxGetId", "cuCtxGetApiVersion", "cuCtxFromGreenCtx", "cuGreenCtxDestroy",
        "cuGreenCtxGetId",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(sim_entries[fn].base, names[i]) == 0) return true;
    return false;
}

void sim_lost_by(CUresult code)
{
    struct sim_context *c;
    if (!costs_the_context(code) || sim_life() != SIM_READY) return;
    sim_lock();
    if (sim_context_current(&c) == CUDA_SUCCESS && !sim_lost_of(c)) {
        sim_context_owner(c)->lost = code;
        atomic_fetch_add(&lost_count, 1);
    }
    sim_unlock();
}

CUresult sim_lost_of(const struct sim_context *c)
{
    return c->green_of ? c->green_of->lost : c->lost;
}

CUresult sim_lost_check(enum sim_fn fn)
{
    struct sim_context *c;
    if (!atomic_load_explicit(&lost_count, memory_order_relaxed) || goes_on(fn)) return CUDA_SUCCESS;
    sim_lock();
    CUresult result = sim_context_current(&c) == CUDA_SUCCESS ? sim_lost_of(c) : CUDA_SUCCESS;
    sim_unlock();
    return result;
}

void sim_lost_forget(struct sim_context *c)
{
    if (!c->lost) return;
    c->lost = CUDA_SUCCESS;
    atomic_fetch_sub(&lost_count, 1);
}
