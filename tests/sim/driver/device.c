#include "device.h"

#include "context.h"
#include "pool.h"
#include "state.h"
#include "visible.h"

#include <stdio.h>
#include <string.h>

enum { CONTEXT_SLACK = 2, MAJOR = 9, MINOR = 0 };

static struct sim_device devices[SIM_DEVICES_MAX];
static int opened; /* devices open; written once, by sim_devices_open */

static CUresult open_device(int ordinal, int physical)
{
    struct sim_device *d = &devices[ordinal];
    d->ordinal = ordinal;
    d->physical = physical;
    d->total = sim_settings.memory[physical];
    /* more addresses than bytes: the account says when memory is out, fragmentation does not */
    if (sim_arena_open(&d->arena, d->total * CONTEXT_SLACK) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
    d->default_pool = d->pool = sim_pool_new(d, true, false);
    return d->pool ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_devices_open(void)
{
    int physical[SIM_DEVICES_MAX];
    int visible = sim_visible_devices(sim_settings.devices, physical);
    if (!visible) return CUDA_ERROR_NO_DEVICE;
    while (opened < visible) {
        CUresult result = open_device(opened, physical[opened]);
        if (result != CUDA_SUCCESS) return result;
        opened++;
    }
    return CUDA_SUCCESS;
}

struct sim_device *sim_device_get(int ordinal)
{
    return ordinal >= 0 && ordinal < opened ? &devices[ordinal] : NULL;
}

struct sim_device *sim_device_physical(int physical)
{
    for (int i = 0; i < opened; i++)
        if (devices[i].physical == physical) return &devices[i];
    return NULL;
}

int sim_device_count(void)
{
    return opened;
}

struct sim_device *sim_device_of_address(uint64_t address)
{
    for (int i = 0; i < opened; i++)
        if (sim_arena_holds(&devices[i].arena, address)) return &devices[i];
    return NULL;
}

bool sim_host_location(const CUmemLocation *l)
{
    if (l->type == CU_MEM_LOCATION_TYPE_HOST_NUMA) return l->id == 0;
    return l->type == CU_MEM_LOCATION_TYPE_HOST || l->type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

bool sim_device_charge(struct sim_device *d, uint64_t bytes)
{
    if (bytes > d->total - d->used) sim_device_trim_graphs(d);
    if (bytes > d->total - d->used) sim_pool_trim_device(d);
    if (bytes > d->total - d->used) return false;
    d->used += bytes;
    return true;
}

bool sim_device_charge_graph(struct sim_device *d, uint64_t bytes)
{
    uint64_t cached = bytes < d->graph_cached ? bytes : d->graph_cached;
    d->graph_cached -= cached;
    if (sim_device_charge(d, bytes - cached)) return true;
    d->graph_cached += cached;
    return false;
}

void sim_device_trim_graphs(struct sim_device *d)
{
    sim_device_refund(d, d->graph_cached);
    d->graph_cached = 0;
}

void sim_device_refund(struct sim_device *d, uint64_t bytes)
{
    d->used -= bytes;
}

/* --- entry points: start ------------------------------------------------------------------------------- */

CUresult cuInit(unsigned int flags)
{
    CUresult result = sim_enter_any(SIM_FN_cuInit);
    if (result != CUDA_SUCCESS) return result;
    if (flags) return CUDA_ERROR_INVALID_VALUE;
    return sim_life() == SIM_FORKED ? CUDA_ERROR_NOT_INITIALIZED : sim_start();
}

CUresult cuDriverGetVersion(int *version)
{
    CUresult result = sim_enter_any(SIM_FN_cuDriverGetVersion);
    if (result != CUDA_SUCCESS) return result;
    if (!version) return CUDA_ERROR_INVALID_VALUE;
    *version = sim_settings.version;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
    SIM_ENTER(cuDeviceGetCount);
    if (!count) return CUDA_ERROR_INVALID_VALUE;
    *count = opened;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    SIM_ENTER(cuDeviceGet);
    if (!device) return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_get(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

/* --- entry points: identity ---------------------------------------------------------------------------- */

CUresult cuDeviceGetName(char *name, int len, CUdevice dev)
{
    SIM_ENTER(cuDeviceGetName);
    if (!name || len <= 0) return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_get(dev)) return CUDA_ERROR_INVALID_DEVICE;
    snprintf(name, (size_t)len, "Simulated CUDA device");
    return CUDA_SUCCESS;
}

static CUresult uuid_of(CUuuid *uuid, int dev)
{
    if (!uuid) return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_get(dev)) return CUDA_ERROR_INVALID_DEVICE;
    sim_device_uuid(sim_device_get(dev)->physical, uuid);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)
{
    SIM_ENTER(cuDeviceGetUuid);
    return uuid_of(uuid, dev);
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
    SIM_ENTER(cuDeviceGetUuid_v2);
    return uuid_of(uuid, dev);
}

CUresult cuDeviceGetPCIBusId(char *id, int len, CUdevice dev)
{
    SIM_ENTER(cuDeviceGetPCIBusId);
    if (!id || len <= 0) return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_get(dev)) return CUDA_ERROR_INVALID_DEVICE;
    snprintf(id, (size_t)len, "0000:%02X:00.0", (unsigned)sim_device_get(dev)->physical + 1);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *dev, const char *id)
{
    SIM_ENTER(cuDeviceGetByPCIBusId);
    unsigned domain, bus, slot;
    if (!dev || !id) return CUDA_ERROR_INVALID_VALUE;
    int n = sscanf(id, "%x:%x:%x", &domain, &bus, &slot);
    if (n == 2) bus = domain; /* "bus:slot" */
    if (n < 2) return CUDA_ERROR_INVALID_VALUE;
    struct sim_device *d = sim_device_physical((int)bus - 1);
    if (!d) return CUDA_ERROR_INVALID_DEVICE;
    *dev = d->ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
    SIM_ENTER(cuDeviceTotalMem_v2);
    struct sim_device *d = sim_device_get(dev);
    if (!bytes) return CUDA_ERROR_INVALID_VALUE;
    if (!d) return CUDA_ERROR_INVALID_DEVICE;
    *bytes = d->total;
    return CUDA_SUCCESS;
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice dev)
{
    SIM_ENTER(cuDeviceComputeCapability);
    if (!major || !minor) return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_get(dev)) return CUDA_ERROR_INVALID_DEVICE;
    *major = MAJOR;
    *minor = MINOR;
    return CUDA_SUCCESS;
}

/* --- entry points: attributes -------------------------------------------------------------------------- */

struct attribute {
    CUdevice_attribute name;
    int value;
};

/* A plausible data-centre device. What is not listed answers 0: a feature it does not have. */
static const struct attribute attributes[] = {
    { CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024 },
    { CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024 },
    { CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024 },
    { CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64 },
    { CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647 },
    { CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535 },
    { CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535 },
    { CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152 },
    { CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536 },
    { CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32 },
    { CU_DEVICE_ATTRIBUTE_MAX_PITCH, 2147483647 },
    { CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536 },
    { CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1500000 },
    { CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, SIM_ALIGNMENT },
    { CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 32 },
    { CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT, SIM_ALIGNMENT },
    { CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1 },
    { CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, SIM_MULTIPROCESSORS },
    { CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1 },
    { CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1 },
    { CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 2600000 },
    { CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 5120 },
    { CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 50 << 20 },
    { CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048 },
    { CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3 },
    { CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1 },
    { CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, MAJOR },
    { CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, MINOR },
    { CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1 },
    { CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED, 1 },
    { CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED, 1 },
    { CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 233472 },
    { CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536 },
    { CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1 },
    { CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO, 2 },
    { CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1 },
    { CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED, 1 },
    { CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1 },
    { CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1, 1 },
    { CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1, 1 },
    { CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR_V1, 1 },
    { CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1 },
    { CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES, 1 },
    { CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 232448 },
    { CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1 },
    { CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, 1 },
    { CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1 },
    { CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1 },
    { CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 32 },
    { CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, 1024 },
    { CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1 },
    { CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR },
    { CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 1 },
    { CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, 1 },
    { CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS, 1 },
    { CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED, 1 },
    { CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 1 },
    { CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 1 },
    { CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1 },
    { CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1 },
    { CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED, 1 },
    { CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED, 1 },
    { CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, 1 },
    { CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH, 131072 },
    { CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH, 131072 },
    { CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT, 65536 },
    { CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH, 1 << 28 },
    { CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH, 131072 },
    { CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT, 131072 },
    { CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH, 2147483647 },
    { CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH, 16384 },
    { CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT, 16384 },
    { CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH, 16384 },
};

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice dev)
{
    SIM_ENTER(cuDeviceGetAttribute);
    if (!value || attribute <= 0 || attribute >= CU_DEVICE_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_get(dev)) return CUDA_ERROR_INVALID_DEVICE;
    *value = attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID ? sim_device_get(dev)->physical + 1 : 0;
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
        if (attributes[i].name == attribute) *value = attributes[i].value;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetProperties(CUdevprop *prop, CUdevice dev)
{
    SIM_ENTER(cuDeviceGetProperties);
    if (!prop) return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_get(dev)) return CUDA_ERROR_INVALID_DEVICE;
    *prop = (CUdevprop){ .maxThreadsPerBlock = 1024, .maxThreadsDim = { 1024, 1024, 64 },
                         .maxGridSize = { 2147483647, 65535, 65535 }, .sharedMemPerBlock = 49152,
                         .totalConstantMemory = 65536, .SIMDWidth = 32, .memPitch = 2147483647,
                         .regsPerBlock = 65536, .clockRate = 1500000, .textureAlign = SIM_ALIGNMENT };
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetTexture1DLinearMaxWidth(size_t *width, CUarray_format format, unsigned channels, CUdevice dev)
{
    SIM_ENTER(cuDeviceGetTexture1DLinearMaxWidth);
    (void)format;
    if (!width || !channels) return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_get(dev)) return CUDA_ERROR_INVALID_DEVICE;
    *width = 1u << 28;
    return CUDA_SUCCESS;
}
