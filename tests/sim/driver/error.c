/* Names and words of the result codes. */
#include "api.h"

static const struct { CUresult code; const char *name; const char *text; } errors[] = {
#define ERROR(code, text) { code, #code, text },
    ERROR(CUDA_SUCCESS, "no error")
    ERROR(CUDA_ERROR_INVALID_VALUE, "invalid argument")
    ERROR(CUDA_ERROR_OUT_OF_MEMORY, "out of memory")
    ERROR(CUDA_ERROR_NOT_INITIALIZED, "initialization error")
    ERROR(CUDA_ERROR_DEINITIALIZED, "driver shutting down")
    ERROR(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected")
    ERROR(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal")
    ERROR(CUDA_ERROR_INVALID_CONTEXT, "invalid device context")
    ERROR(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "peer access is not supported between these two devices")
    ERROR(CUDA_ERROR_FILE_NOT_FOUND, "file not found")
    ERROR(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle")
    ERROR(CUDA_ERROR_ILLEGAL_STATE, "the operation cannot be performed in the present state")
    ERROR(CUDA_ERROR_NOT_FOUND, "named symbol not found")
    ERROR(CUDA_ERROR_NOT_READY, "device not ready")
    ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered")
    ERROR(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is already enabled")
    ERROR(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "peer access has not been enabled")
    ERROR(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed")
    ERROR(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "part or all of the requested memory range is already mapped")
    ERROR(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "pointer does not correspond to a registered memory region")
    ERROR(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure")
    ERROR(CUDA_ERROR_NOT_PERMITTED, "operation not permitted")
    ERROR(CUDA_ERROR_NOT_SUPPORTED, "operation not supported")
    ERROR(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing")
    ERROR(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "operation failed due to a previous error during capture")
    ERROR(CUDA_ERROR_STREAM_CAPTURE_MERGE, "operation would result in a merge of separate capture sequences")
    ERROR(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "capture was not ended in the same stream as it began")
    ERROR(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "capturing stream has unjoined work")
    ERROR(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "dependency created on uncaptured work in another stream")
    ERROR(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "operation would make the legacy stream depend on a capturing blocking stream")
    ERROR(CUDA_ERROR_CAPTURED_EVENT, "operation not permitted on an event last recorded in a capturing stream")
    ERROR(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "attempt to terminate a thread-local capture sequence from another thread")
    ERROR(CUDA_ERROR_TIMEOUT, "wait operation timed out")
    ERROR(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, "the graph update was not performed because it included changes which violated constraints")
    ERROR(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, "the requested execution affinity is not supported")
    ERROR(CUDA_ERROR_UNKNOWN, "unknown error")
};

enum { COUNT = sizeof errors / sizeof *errors };

CUresult cuGetErrorName(CUresult error, const char **text)
{
    CUresult refused = sim_enter_query(SIM_FN_cuGetErrorName);
    if (refused != CUDA_SUCCESS) return refused;
    if (!text) return CUDA_ERROR_INVALID_VALUE;
    *text = NULL;
    for (int i = 0; i < COUNT; i++)
        if (errors[i].code == error) *text = errors[i].name;
    return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char **text)
{
    CUresult refused = sim_enter_query(SIM_FN_cuGetErrorString);
    if (refused != CUDA_SUCCESS) return refused;
    if (!text) return CUDA_ERROR_INVALID_VALUE;
    *text = NULL;
    for (int i = 0; i < COUNT; i++)
        if (errors[i].code == error) *text = errors[i].text;
    return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
