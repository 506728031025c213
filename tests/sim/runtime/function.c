/* Attributes and occupancy of kernels, and the configuration stack behind the <<<>>> syntax. */
#include "registry.h"

#include <stddef.h>

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, struct CUstream_st *stream);
cudaError_t __cudaPopCallConfiguration(dim3 *ret_grid, dim3 *ret_block, size_t *ret_shared, void *ret_stream);

struct configuration {
    dim3 grid, block;
    size_t shared;
    struct CUstream_st *stream;
};

/* A launch's arguments may contain launches, so the configurations stack; deeper than this is no real program. */
enum { DEPTH = 16 };
static _Thread_local struct configuration pending[DEPTH];
static _Thread_local int depth;

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, struct CUstream_st *stream)
{
    if (depth == DEPTH)
        return 1; /* the generated code then skips the launch */
    pending[depth++] = (struct configuration){grid, block, shared, stream};
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *ret_grid, dim3 *ret_block, size_t *ret_shared, void *ret_stream)
{
    const struct configuration *top;

    if (depth == 0)
        return rt_record(cudaErrorMissingConfiguration);
    top = &pending[--depth];
    *ret_grid = top->grid;
    *ret_block = top->block;
    *ret_shared = top->shared;
    *(struct CUstream_st **)ret_stream = top->stream;
    return cudaSuccess;
}

static CUresult fill(struct cudaFuncAttributes *attributes, CUfunction function)
{
    const struct {
        CUfunction_attribute name;
        int *value;
    } ints[] = {
        {CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &attributes->maxThreadsPerBlock},
        {CU_FUNC_ATTRIBUTE_NUM_REGS, &attributes->numRegs},
        {CU_FUNC_ATTRIBUTE_PTX_VERSION, &attributes->ptxVersion},
        {CU_FUNC_ATTRIBUTE_BINARY_VERSION, &attributes->binaryVersion},
        {CU_FUNC_ATTRIBUTE_CACHE_MODE_CA, &attributes->cacheModeCA},
        {CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, &attributes->maxDynamicSharedSizeBytes},
        {CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, &attributes->preferredShmemCarveout},
    };
    const struct {
        CUfunction_attribute name;
        size_t *value;
    } sizes[] = {
        {CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, &attributes->sharedSizeBytes},
        {CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, &attributes->constSizeBytes},
        {CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, &attributes->localSizeBytes},
    };
    CUresult result = CUDA_SUCCESS;

    for (size_t i = 0; i < sizeof ints / sizeof ints[0] && result == CUDA_SUCCESS; i++)
        result = DRV(cuFuncGetAttribute, 2020)(ints[i].value, ints[i].name, function);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0] && result == CUDA_SUCCESS; i++) {
        int value = 0;

        result = DRV(cuFuncGetAttribute, 2020)(&value, sizes[i].name, function);
        *sizes[i].value = (size_t)value;
    }
    return result;
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attr, const void *func)
{
    struct cudaFuncAttributes filled = {0};
    CUfunction function;
    cudaError_t error = rt_enter();

    if (!error && !attr)
        error = cudaErrorInvalidValue;
    if (!error)
        error = rt_function_find(func, &function);
    if (!error)
        error = rt_error(fill(&filled, function));
    if (!error)
        *attr = filled;
    return rt_record(error);
}

/* cudaFuncAttribute and CUfunction_attribute share their numbers. */
cudaError_t cudaFuncSetAttribute(const void *func, enum cudaFuncAttribute attr, int value)
{
    CUfunction function;
    cudaError_t error = rt_enter();

    if (!error)
        error = rt_function_find(func, &function);
    if (!error)
        error = rt_error(DRV(cuFuncSetAttribute, 9000)(function, (CUfunction_attribute)attr, value));
    return rt_record(error);
}

cudaError_t cudaFuncSetCacheConfig(const void *func, enum cudaFuncCache cacheConfig)
{
    CUfunction function;
    cudaError_t error = rt_enter();

    if (!error)
        error = rt_function_find(func, &function);
    if (!error)
        error = rt_error(DRV(cuFuncSetCacheConfig, 3000)(function, (CUfunc_cache)cacheConfig));
    return rt_record(error);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks, const void *func, int blockSize,
                                                                   size_t dynamicSMemSize, unsigned int flags)
{
    CUfunction function;
    cudaError_t error = rt_enter();

    if (!error)
        error = rt_function_find(func, &function);
    if (!error)
        error = rt_error(DRV(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, 7000)(
            numBlocks, function, blockSize, dynamicSMemSize, flags));
    return rt_record(error);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, const void *func, int blockSize,
                                                          size_t dynamicSMemSize)
{
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(numBlocks, func, blockSize, dynamicSMemSize,
                                                                  cudaOccupancyDefault);
}

cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize, const void *func, int numBlocks,
                                                      int blockSize)
{
    CUfunction function;
    cudaError_t error = rt_enter();

    if (!error)
        error = rt_function_find(func, &function);
    if (!error)
        error = rt_error(
            DRV(cuOccupancyAvailableDynamicSMemPerBlock, 10020)(dynamicSmemSize, function, numBlocks, blockSize));
    return rt_record(error);
}

cudaError_t cudaFuncGetName(const char **name, const void *func)
{
    CUfunction function;
    cudaError_t error = rt_enter();

    if (!error)
        error = rt_function_find(func, &function);
    if (!error)
        error = rt_error(DRV(cuFuncGetName, 12030)(name, function));
    return rt_record(error);
}
