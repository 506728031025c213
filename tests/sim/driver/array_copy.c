/* Copies between arrays and lines of memory: an array's rows follow each other without gaps, so a place in it is an offset
 * in bytes. */
#include "array.h"
#include "block.h"
#include "copy.h"
#include "state.h"

/* One end of a copy: an array, or memory at an address. */
struct end {
    CUarray array; /* NULL: memory */
    uint64_t at;   /* offset or address */
};

static CUresult place(const struct end *e, size_t bytes, uint64_t *ret_address)
{
    *ret_address = e->at;
    if (!e->array) return CUDA_SUCCESS;
    sim_lock();
    struct sim_array *a = sim_object_find(e->array, SIM_ARRAY);
    uint64_t size = a ? a->block->size : 0;
    bool inside = e->at <= size && bytes <= size - e->at;
    if (a) *ret_address = a->block->range.start + e->at;
    sim_unlock();
    return !a ? CUDA_ERROR_INVALID_HANDLE : inside ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult copy(const struct end *dst, const struct end *src, size_t bytes, CUstream h, enum sim_default dflt, bool waits,
                     enum sim_fn fn)
{
    uint64_t to, from;
    CUresult result = place(dst, bytes, &to);
    if (result == CUDA_SUCCESS) result = place(src, bytes, &from);
    return result == CUDA_SUCCESS ? sim_copy_line(to, from, bytes, h, dflt, waits, fn) : result;
}

/* A handle that is NULL is no array. */
static CUresult check(CUarray a)
{
    return a ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

#define MEMORY(p) (&(struct end){ NULL, (uint64_t)(uintptr_t)(p) })
#define ARRAY(a, offset) (&(struct end){ a, offset })
#define SYNC(dst, src, array) (check(array) ? check(array) : copy(dst, src, n, NULL, dflt, true, fn))
#define ASYNC(dst, src, array) (check(array) ? check(array) : copy(dst, src, n, h, dflt, false, fn))

SIM_TWIN(cuMemcpyDtoA_v2, _ptds, (CUarray a, size_t offset, CUdeviceptr src, size_t n), SYNC(ARRAY(a, offset), MEMORY(src), a))
SIM_TWIN(cuMemcpyAtoD_v2, _ptds, (CUdeviceptr dst, CUarray a, size_t offset, size_t n), SYNC(MEMORY(dst), ARRAY(a, offset), a))
SIM_TWIN(cuMemcpyHtoA_v2, _ptds, (CUarray a, size_t offset, const void *src, size_t n), SYNC(ARRAY(a, offset), MEMORY(src), a))
SIM_TWIN(cuMemcpyAtoH_v2, _ptds, (void *dst, CUarray a, size_t offset, size_t n), SYNC(MEMORY(dst), ARRAY(a, offset), a))
SIM_TWIN(cuMemcpyAtoA_v2, _ptds, (CUarray a, size_t to, CUarray b, size_t from, size_t n),
         (check(b) ? check(b) : SYNC(ARRAY(a, to), ARRAY(b, from), a)))
SIM_TWIN(cuMemcpyHtoAAsync_v2, _ptsz, (CUarray a, size_t offset, const void *src, size_t n, CUstream h),
         ASYNC(ARRAY(a, offset), MEMORY(src), a))
SIM_TWIN(cuMemcpyAtoHAsync_v2, _ptsz, (void *dst, CUarray a, size_t offset, size_t n, CUstream h),
         ASYNC(MEMORY(dst), ARRAY(a, offset), a))
