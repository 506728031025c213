/* Batches of copies (CUDA 12.8 and, without the index of the failure, 13.0) and of hints about managed memory. A batch is
 * checked whole before any of it is queued; its parts are pieces of work of their own. */
#include "copy.h"
#include "device.h"
#include "managed.h"
#include "state.h"
#include "stream.h"

#include <stdint.h>

/* The first starts at 0, each later one further on, all within the batch. */
static bool valid_starts(const size_t *starts, size_t number, size_t count)
{
    if (!starts || !number || number > count || starts[0] != 0) return false;
    for (size_t i = 1; i < number; i++)
        if (starts[i] <= starts[i - 1] || starts[i] >= count) return false;
    return true;
}

static bool is_legacy(CUstream h, enum sim_default dflt)
{
    return h == CU_STREAM_LEGACY || (!h && dflt == SIM_LEGACY);
}

static bool valid_order(unsigned order)
{
    return order >= CU_MEMCPY_SRC_ACCESS_ORDER_STREAM && order <= CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
}

/* --- copies ---------------------------------------------------------------------------------------------------- */

struct copies {
    CUdeviceptr *dsts, *srcs;
    size_t *sizes, count;
    CUmemcpyAttributes *attrs;
    size_t *starts, number;
};

static CUresult check_copies(const struct copies *b, size_t *ret_failed)
{
    *ret_failed = SIZE_MAX;
    if (!b->count || !b->dsts || !b->srcs || !b->sizes || !b->attrs || !valid_starts(b->starts, b->number, b->count))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < b->number; i++)
        if (!valid_order(b->attrs[i].srcAccessOrder)) {
            *ret_failed = b->starts[i];
            return CUDA_ERROR_INVALID_VALUE;
        }
    for (size_t i = 0; i < b->count; i++) {
        const struct sim_copy c = { .dst = b->dsts[i], .src = b->srcs[i], .width = b->sizes[i], .height = 1, .depth = 1 };
        if (sim_copy_check(&c) == CUDA_SUCCESS) continue;
        *ret_failed = i;
        return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

static CUresult copy_batch(const struct copies *b, size_t *failed, CUstream h, enum sim_default dflt, enum sim_fn fn)
{
    size_t at;
    CUresult result = is_legacy(h, dflt) ? CUDA_ERROR_INVALID_VALUE : check_copies(b, &at);
    if (is_legacy(h, dflt)) at = SIZE_MAX;
    for (size_t i = 0; result == CUDA_SUCCESS && i < b->count; i++) {
        const struct sim_copy c = { .dst = b->dsts[i], .src = b->srcs[i], .width = b->sizes[i], .height = 1, .depth = 1 };
        result = sim_copy_submit(&c, h, dflt, fn);
    }
    if (failed && result != CUDA_SUCCESS) *failed = at;
    return result;
}

#define COPIES (&(struct copies){ dsts, srcs, sizes, count, attrs, starts, number })

SIM_TWIN(cuMemcpyBatchAsync, _ptsz,
         (CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count, CUmemcpyAttributes *attrs, size_t *starts,
          size_t number, size_t *failed, CUstream h),
         copy_batch(COPIES, failed, h, dflt, fn))
SIM_TWIN(cuMemcpyBatchAsync_v2, _ptsz,
         (CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count, CUmemcpyAttributes *attrs, size_t *starts,
          size_t number, CUstream h),
         copy_batch(COPIES, NULL, h, dflt, fn))

/* Operands by pointer; those by array are not simulated. */
static CUresult describe(const CUDA_MEMCPY3D_BATCH_OP *op, struct sim_copy *ret)
{
    if (!valid_order(op->srcAccessOrder) || !op->extent.width || !op->extent.height || !op->extent.depth)
        return CUDA_ERROR_INVALID_VALUE;
    if (op->src.type != CU_MEMCPY_OPERAND_TYPE_POINTER || op->dst.type != CU_MEMCPY_OPERAND_TYPE_POINTER)
        return CUDA_ERROR_NOT_SUPPORTED;
    size_t width = op->extent.width, height = op->extent.height;
    size_t from_row = op->src.op.ptr.rowLength ? op->src.op.ptr.rowLength : width;
    size_t to_row = op->dst.op.ptr.rowLength ? op->dst.op.ptr.rowLength : width;
    size_t from_layer = op->src.op.ptr.layerHeight ? op->src.op.ptr.layerHeight : height;
    size_t to_layer = op->dst.op.ptr.layerHeight ? op->dst.op.ptr.layerHeight : height;
    if (from_row < width || to_row < width || from_layer < height || to_layer < height) return CUDA_ERROR_INVALID_VALUE;
    *ret = (struct sim_copy){ op->dst.op.ptr.ptr, op->src.op.ptr.ptr, width, height, op->extent.depth,
                              to_row, from_row, to_row * to_layer, from_row * from_layer };
    return sim_copy_check(ret);
}

static CUresult copy_3d_batch(size_t count, const CUDA_MEMCPY3D_BATCH_OP *ops, size_t *failed, unsigned long long flags,
                              CUstream h, enum sim_default dflt, enum sim_fn fn)
{
    struct sim_copy c;
    CUresult result = CUDA_SUCCESS;
    if (failed) *failed = SIZE_MAX;
    if (!count || !ops || flags || is_legacy(h, dflt)) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++)
        if ((result = describe(&ops[i], &c)) != CUDA_SUCCESS) {
            if (failed) *failed = i;
            return result;
        }
    for (size_t i = 0; result == CUDA_SUCCESS && i < count; i++) {
        result = describe(&ops[i], &c);
        if (result == CUDA_SUCCESS) result = sim_copy_submit(&c, h, dflt, fn);
    }
    return result;
}

SIM_TWIN(cuMemcpy3DBatchAsync, _ptsz,
         (size_t count, CUDA_MEMCPY3D_BATCH_OP *ops, size_t *failed, unsigned long long flags, CUstream h),
         copy_3d_batch(count, ops, failed, flags, h, dflt, fn))
SIM_TWIN(cuMemcpy3DBatchAsync_v2, _ptsz,
         (size_t count, CUDA_MEMCPY3D_BATCH_OP *ops, unsigned long long flags, CUstream h),
         copy_3d_batch(count, ops, NULL, flags, h, dflt, fn))

/* --- managed memory: each range to the location of its part of the batch ------------------------------------------ */

struct ranges {
    CUdeviceptr *ptrs;
    size_t *sizes, count;
    CUmemLocation *locations; /* NULL: nothing is prefetched */
    size_t *starts, number;
};

static CUresult hint_batch(const struct ranges *b, bool prefetch, unsigned long long flags, CUstream h,
                           enum sim_default dflt, enum sim_fn fn)
{
    if (!b->count || !b->ptrs || !b->sizes || flags || is_legacy(h, dflt)) return CUDA_ERROR_INVALID_VALUE;
    if (prefetch && (!b->locations || !valid_starts(b->starts, b->number, b->count))) return CUDA_ERROR_INVALID_VALUE;
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; prefetch && result == CUDA_SUCCESS && i < b->number; i++)
        result = sim_managed_check_location(&b->locations[i]);
    for (size_t i = 0; result == CUDA_SUCCESS && i < b->count; i++) result = sim_managed_check(b->ptrs[i], b->sizes[i]);
    for (size_t i = 0, part = 0; result == CUDA_SUCCESS && i < b->count; i++) {
        while (prefetch && part + 1 < b->number && b->starts[part + 1] <= i) part++;
        result = sim_managed_hint(b->ptrs[i], b->sizes[i], prefetch ? &b->locations[part] : NULL, h, dflt, fn);
    }
    return result;
}

SIM_TWIN(cuMemPrefetchBatchAsync, _ptsz,
         (CUdeviceptr *ptrs, size_t *sizes, size_t count, CUmemLocation *locations, size_t *starts, size_t number,
          unsigned long long flags, CUstream h),
         hint_batch(&(struct ranges){ ptrs, sizes, count, locations, starts, number }, true, flags, h, dflt, fn))
SIM_TWIN(cuMemDiscardBatchAsync, _ptsz,
         (CUdeviceptr *ptrs, size_t *sizes, size_t count, unsigned long long flags, CUstream h),
         hint_batch(&(struct ranges){ ptrs, sizes, count, NULL, NULL, 0 }, false, flags, h, dflt, fn))
SIM_TWIN(cuMemDiscardAndPrefetchBatchAsync, _ptsz,
         (CUdeviceptr *ptrs, size_t *sizes, size_t count, CUmemLocation *locations, size_t *starts, size_t number,
          unsigned long long flags, CUstream h),
         hint_batch(&(struct ranges){ ptrs, sizes, count, locations, starts, number }, true, flags, h, dflt, fn))
