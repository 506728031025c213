/* How many blocks and clusters fit: as if every kernel used what launch.c says of functions. */
#include "context.h"
#include "device.h"
#include "object.h"
#include "state.h"

enum { THREADS = 1024, CLUSTER_MAX = 8, CLUSTERS_SHARE = 8 };

static CUresult check_code(const void *handle)
{
    sim_lock();
    bool found = sim_object_find(handle, SIM_FUNCTION) || sim_object_find(handle, SIM_KERNEL);
    sim_unlock();
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, CUfunction f, CUoccupancyB2DSize shared_of, size_t shared,
                                                   int limit, unsigned int flags)
{
    SIM_ENTER(cuOccupancyMaxPotentialBlockSizeWithFlags);
    (void)shared_of, (void)shared;
    if (!grid || !block || (flags & ~(unsigned)CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)) return CUDA_ERROR_INVALID_VALUE;
    *block = limit > 0 && limit < THREADS ? limit : THREADS;
    *grid = 2 * SIM_MULTIPROCESSORS;
    return check_code(f);
}

static CUresult check_launch(const CUlaunchConfig *c, CUfunction f)
{
    uint64_t threads = c ? (uint64_t)c->blockDimX * c->blockDimY * c->blockDimZ : 0;
    return threads && threads <= THREADS ? check_code(f) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuOccupancyMaxPotentialClusterSize(int *size, CUfunction f, const CUlaunchConfig *config)
{
    SIM_ENTER(cuOccupancyMaxPotentialClusterSize);
    CUresult result = size ? check_launch(config, f) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) *size = CLUSTER_MAX;
    return result;
}

static unsigned cluster_blocks(const CUlaunchConfig *c)
{
    for (unsigned i = 0; i < c->numAttrs; i++)
        if (c->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
            return c->attrs[i].value.clusterDim.x * c->attrs[i].value.clusterDim.y * c->attrs[i].value.clusterDim.z;
    return 1;
}

CUresult cuOccupancyMaxActiveClusters(int *count, CUfunction f, const CUlaunchConfig *config)
{
    SIM_ENTER(cuOccupancyMaxActiveClusters);
    CUresult result = count ? check_launch(config, f) : CUDA_ERROR_INVALID_VALUE;
    unsigned blocks = result == CUDA_SUCCESS ? cluster_blocks(config) : 0;
    if (result == CUDA_SUCCESS && !blocks) result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) *count = blocks > CLUSTERS_SHARE ? 0 : SIM_MULTIPROCESSORS / (int)blocks;
    return result;
}
