/* cudaGetDriverEntryPoint: the program's own door to the driver, opened with the pointer that the driver gave the runtime
 * for its resolver. Without flags the form follows the caller's: plain or per-thread. */
#include "../state.h"

#include <stddef.h>

enum {
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
    FORM = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
#else
    FORM = CU_GET_PROC_ADDRESS_LEGACY_STREAM
#endif
};

static cudaError_t find(const char *symbol, void **ret_function, int version, unsigned long long flags,
                        enum cudaDriverEntryPointQueryResult *ret_status)
{
    CUdriverProcAddressQueryResult status;
    cudaError_t error = rt_initialise();

    if (!error && (!symbol || !ret_function))
        error = cudaErrorInvalidValue;
    if (error)
        return error;
    error = rt_error(
        DRV(cuGetProcAddress, 12000)(symbol, ret_function, version, flags ? flags : (cuuint64_t)FORM, &status));
    if (!error && ret_status)
        *ret_status = (enum cudaDriverEntryPointQueryResult)status;
    return error;
}

cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **funcPtr, unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult *driverStatus)
{
    return rt_record(find(symbol, funcPtr, SIM_CUDART_VERSION, flags, driverStatus));
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **funcPtr, unsigned int cudaVersion,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *driverStatus)
{
    return rt_record(find(symbol, funcPtr, (int)cudaVersion, flags, driverStatus));
}
