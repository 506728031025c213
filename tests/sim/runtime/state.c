#include "state.h"

#include "exit.h"

#include <pthread.h>
#include <stdbool.h>

enum { MAX_DEVICES = 64 };

static _Thread_local cudaError_t last_error;
static _Thread_local int chosen_device;

/* `context` keeps its value after a reset, with `retained` false: a thread that still has it current must be seen to
 * hold a dead context, not one of the program's own. `lost` is the error that cost the context, or cudaSuccess. */
static struct primary {
    CUcontext context;
    bool retained;
    cudaError_t lost;
} primaries[MAX_DEVICES];
static pthread_mutex_t primaries_lock = PTHREAD_MUTEX_INITIALIZER;

/* After these the context is lost, so that reading the error does not clear it. */
static bool is_sticky(cudaError_t error)
{
    switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
    case cudaErrorContained:
    case cudaErrorTensorMemoryLeak:
    case cudaErrorExternalDevice:
        return true;
    default:
        return false;
    }
}

static void primary_lose(cudaError_t error)
{
    CUcontext context = NULL;

    if (DRV(cuCtxGetCurrent, 4000)(&context) != CUDA_SUCCESS || !context)
        return;
    pthread_mutex_lock(&primaries_lock);
    for (int i = 0; i < MAX_DEVICES; i++)
        if (primaries[i].context == context && primaries[i].retained && !primaries[i].lost)
            primaries[i].lost = error;
    pthread_mutex_unlock(&primaries_lock);
}

cudaError_t rt_record(cudaError_t error)
{
    if (error == cudaSuccess)
        return error;
    if (is_sticky(error))
        primary_lose(error);
    if (!is_sticky(last_error))
        last_error = error;
    return error;
}

cudaError_t cudaPeekAtLastError(void)
{
    return last_error;
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last_error;

    if (!is_sticky(error))
        last_error = cudaSuccess;
    return error;
}

cudaError_t rt_initialise(void)
{
    cudaError_t error = rt_is_unloading() ? cudaErrorCudartUnloading : rt_driver_load();

    return error ? error : rt_error(DRV(cuInit, 2000)(0));
}

/* A reset leaves a context of no use to the thread that still has it current; a lost one answers why. */
static bool is_reset(CUcontext context, cudaError_t *ret_lost)
{
    bool reset = false;

    pthread_mutex_lock(&primaries_lock);
    for (int i = 0; i < MAX_DEVICES; i++) {
        if (primaries[i].context != context)
            continue;
        reset = !primaries[i].retained;
        *ret_lost = primaries[i].lost;
        break;
    }
    pthread_mutex_unlock(&primaries_lock);
    return reset;
}

static bool primary_find(int device, CUcontext *ret_context)
{
    bool retained;

    pthread_mutex_lock(&primaries_lock);
    retained = primaries[device].retained;
    if (retained)
        *ret_context = primaries[device].context;
    pthread_mutex_unlock(&primaries_lock);
    return retained;
}

/* Two threads may both retain; the loser gives its reference back, so that the runtime holds exactly one. */
static cudaError_t primary_retain(int device, CUcontext *ret_context)
{
    CUcontext context;
    bool lost_race;
    CUresult result;

    if (primary_find(device, ret_context))
        return cudaSuccess;
    result = DRV(cuDevicePrimaryCtxRetain, 7000)(&context, device);
    if (result != CUDA_SUCCESS)
        return rt_error(result);
    pthread_mutex_lock(&primaries_lock);
    lost_race = primaries[device].retained;
    if (!lost_race)
        primaries[device] = (struct primary){context, true, cudaSuccess};
    pthread_mutex_unlock(&primaries_lock);
    if (lost_race)
        (void)DRV(cuDevicePrimaryCtxRelease, 7000)(device);
    *ret_context = context;
    return cudaSuccess;
}

static cudaError_t primary_make_current(int device)
{
    CUcontext context;
    cudaError_t error;

    if (device < 0 || device >= MAX_DEVICES)
        return cudaErrorInvalidDevice;
    error = primary_retain(device, &context);
    return error ? error : rt_error(DRV(cuCtxSetCurrent, 4000)(context));
}

static CUcontext current_context(cudaError_t *ret_lost)
{
    CUcontext context = NULL;

    if (DRV(cuCtxGetCurrent, 4000)(&context) != CUDA_SUCCESS || !context || is_reset(context, ret_lost))
        return NULL;
    return context;
}

cudaError_t rt_enter(void)
{
    cudaError_t lost = cudaSuccess, error = rt_initialise();

    if (!error && !current_context(&lost)) {
        error = primary_make_current(chosen_device);
        if (!error)
            (void)current_context(&lost);
    }
    return error ? error : lost;
}

int rt_device(void)
{
    cudaError_t lost;
    CUdevice device;

    if (current_context(&lost) && DRV(cuCtxGetDevice, 2000)(&device) == CUDA_SUCCESS)
        return device;
    return chosen_device;
}

cudaError_t rt_device_choose(int device)
{
    cudaError_t error = rt_initialise();

    if (!error)
        error = primary_make_current(device);
    if (!error)
        chosen_device = device;
    return error;
}

cudaError_t rt_device_reset(void)
{
    cudaError_t error = rt_initialise();
    int device;

    if (error)
        return error;
    device = rt_device();
    error = rt_error(DRV(cuDevicePrimaryCtxReset, 7000)(device));
    if (error)
        return error;
    pthread_mutex_lock(&primaries_lock);
    primaries[device].retained = false;
    primaries[device].lost = cudaSuccess;
    pthread_mutex_unlock(&primaries_lock);
    last_error = cudaSuccess;
    return cudaSuccess;
}

void rt_release_primaries(void)
{
    for (int device = 0; device < MAX_DEVICES; device++) {
        CUcontext context;

        if (primary_find(device, &context))
            (void)DRV(cuDevicePrimaryCtxRelease, 7000)(device);
    }
}
