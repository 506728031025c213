#include "address.h"
#include "state.h"

#include <stdbool.h>
#include <stddef.h>

struct known {
    CUmemorytype type;
    CUdeviceptr device_pointer;
    void *host_pointer;
    int managed;
    int ordinal;
};

/* One plural question: attributes that do not apply come back as zero and are no error. */
static CUresult ask(const void *pointer, struct known *ret_known)
{
    struct known known = {0};
    CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                   CU_POINTER_ATTRIBUTE_HOST_POINTER, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *values[] = {&known.type, &known.device_pointer, &known.host_pointer, &known.managed, &known.ordinal};
    CUresult result = DRV(cuPointerGetAttributes, 7000)(sizeof names / sizeof names[0], names, values,
                                                        rt_address(pointer));

    if (result == CUDA_SUCCESS)
        *ret_known = known;
    return result;
}

static enum cudaMemoryType runtime_type(const struct known *known)
{
    if (known->managed)
        return cudaMemoryTypeManaged;
    if (known->type == CU_MEMORYTYPE_DEVICE)
        return cudaMemoryTypeDevice;
    return known->type == CU_MEMORYTYPE_HOST ? cudaMemoryTypeHost : cudaMemoryTypeUnregistered;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *ptr)
{
    struct cudaPointerAttributes told = {0};
    struct known known;
    cudaError_t error = rt_enter();

    if (!error && !attributes)
        error = cudaErrorInvalidValue;
    if (!error)
        error = rt_error(ask(ptr, &known));
    if (error)
        return rt_record(error);
    told.type = runtime_type(&known);
    if (told.type == cudaMemoryTypeUnregistered) {
        told.device = cudaInvalidDeviceId;
        told.hostPointer = (void *)(uintptr_t)ptr;
    } else {
        told.device = known.ordinal;
        told.devicePointer = rt_pointer(known.device_pointer);
        told.hostPointer = known.host_pointer;
    }
    *attributes = told;
    return cudaSuccess;
}
