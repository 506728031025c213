#include "address.h"
#include "state.h"

#include <stddef.h>
#include <string.h>

_Static_assert(sizeof(cudaIpcMemHandle_t) == sizeof(CUipcMemHandle), "one handle, two names");

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *devPtr)
{
    CUipcMemHandle made;
    cudaError_t error = rt_enter();

    if (!error && !handle)
        error = cudaErrorInvalidValue;
    if (!error)
        error = rt_error(DRV(cuIpcGetMemHandle, 4010)(&made, rt_address(devPtr)));
    if (!error)
        memcpy(handle, &made, sizeof made);
    return rt_record(error);
}

cudaError_t cudaIpcOpenMemHandle(void **devPtr, cudaIpcMemHandle_t handle, unsigned int flags)
{
    CUipcMemHandle native;
    CUdeviceptr address;
    cudaError_t error = rt_enter();

    memcpy(&native, &handle, sizeof native);
    if (!error && !devPtr)
        error = cudaErrorInvalidValue;
    if (!error)
        error = rt_error(DRV(cuIpcOpenMemHandle, 11000)(&address, native, flags));
    if (!error)
        *devPtr = rt_pointer(address);
    return rt_record(error);
}

cudaError_t cudaIpcCloseMemHandle(void *devPtr)
{
    return RT_CALL(DRV(cuIpcCloseMemHandle, 4010), rt_address(devPtr));
}

_Static_assert(sizeof(cudaIpcEventHandle_t) == sizeof(CUipcEventHandle), "one handle, two names");

cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t *handle, cudaEvent_t event)
{
    CUipcEventHandle made;
    cudaError_t error = rt_enter();

    if (!error && !handle)
        error = cudaErrorInvalidValue;
    if (!error)
        error = rt_error(DRV(cuIpcGetEventHandle, 4010)(&made, event));
    if (!error)
        memcpy(handle, &made, sizeof made);
    return rt_record(error);
}

cudaError_t cudaIpcOpenEventHandle(cudaEvent_t *event, cudaIpcEventHandle_t handle)
{
    CUipcEventHandle native;

    memcpy(&native, &handle, sizeof native);
    return RT_CALL(DRV(cuIpcOpenEventHandle, 4010), event, native);
}
