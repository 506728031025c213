/* Libraries of code that the program loads itself; what compilers register is in registry.c. */
#include "address.h"
#include "state.h"

#include <stddef.h>

cudaError_t cudaLibraryLoadData(cudaLibrary_t *library, const void *code, enum cudaJitOption *jitOptions,
                                void **jitOptionsValues, unsigned int numJitOptions,
                                enum cudaLibraryOption *libraryOptions, void **libraryOptionValues,
                                unsigned int numLibraryOptions)
{
    return RT_CALL(DRV(cuLibraryLoadData, 12000), (CUlibrary *)(void *)library, code, (CUjit_option *)(void *)jitOptions,
                   jitOptionsValues, numJitOptions, (CUlibraryOption *)(void *)libraryOptions, libraryOptionValues,
                   numLibraryOptions);
}

cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t *library, const char *fileName, enum cudaJitOption *jitOptions,
                                    void **jitOptionsValues, unsigned int numJitOptions,
                                    enum cudaLibraryOption *libraryOptions, void **libraryOptionValues,
                                    unsigned int numLibraryOptions)
{
    return RT_CALL(DRV(cuLibraryLoadFromFile, 12000), (CUlibrary *)(void *)library, fileName,
                   (CUjit_option *)(void *)jitOptions, jitOptionsValues, numJitOptions,
                   (CUlibraryOption *)(void *)libraryOptions, libraryOptionValues, numLibraryOptions);
}

cudaError_t cudaLibraryUnload(cudaLibrary_t library)
{
    return RT_CALL(DRV(cuLibraryUnload, 12000), (CUlibrary)library);
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t *pKernel, cudaLibrary_t library, const char *name)
{
    return RT_CALL(DRV(cuLibraryGetKernel, 12000), (CUkernel *)(void *)pKernel, (CUlibrary)library, name);
}

static cudaError_t variable(CUresult (*get)(CUdeviceptr *, size_t *, CUlibrary, const char *), void **dptr, size_t *bytes,
                            cudaLibrary_t library, const char *name)
{
    CUdeviceptr address = 0;
    cudaError_t error = rt_error(get(dptr ? &address : NULL, bytes, (CUlibrary)library, name));

    if (!error && dptr)
        *dptr = rt_pointer(address);
    return error;
}

cudaError_t cudaLibraryGetGlobal(void **dptr, size_t *bytes, cudaLibrary_t library, const char *name)
{
    cudaError_t error = rt_enter();

    return rt_record(error ? error : variable(DRV(cuLibraryGetGlobal, 12000), dptr, bytes, library, name));
}

cudaError_t cudaLibraryGetManaged(void **dptr, size_t *bytes, cudaLibrary_t library, const char *name)
{
    cudaError_t error = rt_enter();

    return rt_record(error ? error : variable(DRV(cuLibraryGetManaged, 12000), dptr, bytes, library, name));
}
