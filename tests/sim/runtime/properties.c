/* cudaGetDeviceProperties. CUDA 13 removed fields from the middle of the struct, so a program built for 12 reads another
 * layout than the installed header has; its symbol there is cudaGetDeviceProperties_v2. */
#include "state.h"

#include <string.h>

#if SIM_CUDART_VERSION < 13000

/* The public layout of CUDA 12: names and order are its ABI. */
struct device_properties {
    char name[256];
    cudaUUID_t uuid;
    char luid[8];
    unsigned int luidDeviceNodeMask;
    size_t totalGlobalMem;
    size_t sharedMemPerBlock;
    int regsPerBlock;
    int warpSize;
    size_t memPitch;
    int maxThreadsPerBlock;
    int maxThreadsDim[3];
    int maxGridSize[3];
    int clockRate;
    size_t totalConstMem;
    int major;
    int minor;
    size_t textureAlignment;
    size_t texturePitchAlignment;
    int deviceOverlap;
    int multiProcessorCount;
    int kernelExecTimeoutEnabled;
    int integrated;
    int canMapHostMemory;
    int computeMode;
    int textures[40]; /* the maxTexture* and maxSurface* limits, which nothing here reads */
    size_t surfaceAlignment;
    int concurrentKernels;
    int ECCEnabled;
    int pciBusID;
    int pciDeviceID;
    int pciDomainID;
    int tccDriver;
    int asyncEngineCount;
    int unifiedAddressing;
    int memoryClockRate;
    int memoryBusWidth;
    int l2CacheSize;
    int persistingL2CacheMaxSize;
    int maxThreadsPerMultiProcessor;
    int streamPrioritiesSupported;
    int globalL1CacheSupported;
    int localL1CacheSupported;
    size_t sharedMemPerMultiprocessor;
    int regsPerMultiprocessor;
    int managedMemory;
    int isMultiGpuBoard;
    int multiGpuBoardGroupID;
    int hostNativeAtomicSupported;
    int singleToDoublePrecisionPerfRatio;
    int pageableMemoryAccess;
    int concurrentManagedAccess;
    int computePreemptionSupported;
    int canUseHostPointerForRegisteredMem;
    int cooperativeLaunch;
    int cooperativeMultiDeviceLaunch;
    size_t sharedMemPerBlockOptin;
    int pageableMemoryAccessUsesHostPageTables;
    int directManagedMemAccessFromHost;
    int maxBlocksPerMultiProcessor;
    int accessPolicyMaxWindowSize;
    size_t reservedSharedMemPerBlock;
    int hostRegisterSupported;
    int sparseCudaArraySupported;
    int hostRegisterReadOnlySupported;
    int timelineSemaphoreInteropSupported;
    int memoryPoolsSupported;
    int gpuDirectRDMASupported;
    unsigned int gpuDirectRDMAFlushWritesOptions;
    int gpuDirectRDMAWritesOrdering;
    unsigned int memoryPoolSupportedHandleTypes;
    int deferredMappingCudaArraySupported;
    int ipcEventSupported;
    int clusterLaunch;
    int unifiedFunctionPointers;
    int reserved[63];
};
_Static_assert(sizeof(struct device_properties) == 1032, "the size of CUDA 12's cudaDeviceProp");

#define GET_PROPERTIES cudaGetDeviceProperties_v2
cudaError_t GET_PROPERTIES(struct device_properties *prop, int device);

#else

#define device_properties cudaDeviceProp
#define GET_PROPERTIES cudaGetDeviceProperties

#endif

static const struct property {
    size_t offset;
    size_t size;
    CUdevice_attribute attribute;
} properties[] = {
#define PROP(field, attr)                             \
    {offsetof(struct device_properties, field),       \
     sizeof(((struct device_properties *)NULL)->field), CU_DEVICE_ATTRIBUTE_##attr},
#include "properties.def"
#undef PROP
};

static void store(struct device_properties *prop, const struct property *p, int value)
{
    size_t wide = (size_t)value;
    char *field = (char *)prop + p->offset;

    if (p->size == sizeof wide)
        memcpy(field, &wide, sizeof wide);
    else
        memcpy(field, &value, sizeof value);
}

static CUresult fill(struct device_properties *prop, CUdevice device)
{
    CUresult result = DRV(cuDeviceGetName, 2000)(prop->name, (int)sizeof prop->name, device);
    CUuuid uuid;

    if (result == CUDA_SUCCESS)
        result = DRV(cuDeviceGetUuid, 9020)(&uuid, device);
    if (result == CUDA_SUCCESS)
        result = DRV(cuDeviceTotalMem, 3020)(&prop->totalGlobalMem, device);
    if (result == CUDA_SUCCESS)
        memcpy(&prop->uuid, &uuid, sizeof uuid);
    for (size_t i = 0; i < sizeof properties / sizeof properties[0] && result == CUDA_SUCCESS; i++) {
        int value;

        result = DRV(cuDeviceGetAttribute, 2000)(&value, properties[i].attribute, device);
        if (result == CUDA_SUCCESS)
            store(prop, &properties[i], value);
    }
    return result;
}

cudaError_t GET_PROPERTIES(struct device_properties *prop, int device)
{
    struct device_properties filled;
    cudaError_t error = rt_initialise();

    if (!error && !prop)
        error = cudaErrorInvalidValue;
    if (error)
        return rt_record(error);
    memset(&filled, 0, sizeof filled);
    error = rt_error(fill(&filled, device));
    if (!error)
        *prop = filled;
    return rt_record(error);
}
