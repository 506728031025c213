/* A cuBLAS that computes nothing: the functions that llama.cpp imports, with the one thing an allocation tool must see of
 * the real library: a workspace per handle, taken through the hidden static runtime that it carries.
 *
 * Declared here and not by cublas_v2.h, which toolkits ship apart from the CUDA headers. */
#include <cuda_runtime_api.h>
#include <stdlib.h>

enum status { STATUS_SUCCESS = 0, STATUS_NOT_INITIALIZED = 1, STATUS_ALLOC_FAILED = 3 };

/* What the real library takes for a handle on recent devices. */
enum { WORKSPACE_BYTES = 32 << 20 };

struct cublasContext {
    void *workspace; /* owned */
    cudaStream_t stream;
};

enum status cublasCreate_v2(struct cublasContext **ret_handle);
enum status cublasDestroy_v2(struct cublasContext *handle);
enum status cublasSetStream_v2(struct cublasContext *handle, cudaStream_t stream);
enum status cublasGetStream_v2(struct cublasContext *handle, cudaStream_t *ret_stream);
const char *cublasGetStatusString(enum status status);

enum status cublasCreate_v2(struct cublasContext **ret_handle)
{
    struct cublasContext *handle = calloc(1, sizeof *handle);

    if (!handle)
        return STATUS_ALLOC_FAILED;
    if (cudaMalloc(&handle->workspace, WORKSPACE_BYTES) != cudaSuccess) {
        free(handle);
        return STATUS_ALLOC_FAILED;
    }
    *ret_handle = handle;
    return STATUS_SUCCESS;
}

enum status cublasDestroy_v2(struct cublasContext *handle)
{
    if (!handle)
        return STATUS_NOT_INITIALIZED;
    (void)cudaFree(handle->workspace);
    free(handle);
    return STATUS_SUCCESS;
}

enum status cublasSetStream_v2(struct cublasContext *handle, cudaStream_t stream)
{
    if (!handle)
        return STATUS_NOT_INITIALIZED;
    handle->stream = stream;
    return STATUS_SUCCESS;
}

enum status cublasGetStream_v2(struct cublasContext *handle, cudaStream_t *ret_stream)
{
    if (!handle)
        return STATUS_NOT_INITIALIZED;
    *ret_stream = handle->stream;
    return STATUS_SUCCESS;
}

const char *cublasGetStatusString(enum status status)
{
    return status == STATUS_SUCCESS ? "success" : "cuBLAS error";
}

/* Everything else checks its handle and succeeds. Parameters after the handle are left undeclared: nobody reads them, and
 * the caller owns their stack slots. */
#define CHECKS_ITS_HANDLE(function)                                 \
    enum status function(const struct cublasContext *handle);       \
    enum status function(const struct cublasContext *handle)        \
    {                                                               \
        return handle ? STATUS_SUCCESS : STATUS_NOT_INITIALIZED;    \
    }

CHECKS_ITS_HANDLE(cublasSetMathMode)
CHECKS_ITS_HANDLE(cublasSetWorkspace_v2)
CHECKS_ITS_HANDLE(cublasSgemm_v2)
CHECKS_ITS_HANDLE(cublasSgemmBatched)
CHECKS_ITS_HANDLE(cublasSgemmStridedBatched)
CHECKS_ITS_HANDLE(cublasStrsmBatched)
CHECKS_ITS_HANDLE(cublasGemmEx)
CHECKS_ITS_HANDLE(cublasGemmBatchedEx)
CHECKS_ITS_HANDLE(cublasGemmStridedBatchedEx)
