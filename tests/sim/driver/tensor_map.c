/* Tensor maps: descriptions that kernels copy by. They are opaque, and nothing here reads them; what the driver refuses to
 * encode is refused. */
#include "context.h"
#include "state.h"

#include <string.h>

enum { RANK_MAX = 5, BOX_MAX = 256, STRIDE_MAX = 8, ALIGNMENT = 16, WIDE_ALIGNMENT = 32, MAP_ALIGNMENT = 64 };

/* What stands in the opaque words. */
struct encoded {
    uint64_t magic, address, type, rank;
    uint64_t dims[RANK_MAX];
    uint32_t box[RANK_MAX];
};

_Static_assert(sizeof(struct encoded) <= sizeof(CUtensorMap), "fits");

static const uint64_t magic = 0x70616d726f736e74ull;

static size_t element_bytes(CUtensorMapDataType type)
{
    switch (type) {
    case CU_TENSOR_MAP_DATA_TYPE_UINT8: return 1;
    case CU_TENSOR_MAP_DATA_TYPE_UINT16:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
    case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16: return 2;
    case CU_TENSOR_MAP_DATA_TYPE_UINT32:
    case CU_TENSOR_MAP_DATA_TYPE_INT32:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ:
    case CU_TENSOR_MAP_DATA_TYPE_TFLOAT32:
    case CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ: return 4;
    case CU_TENSOR_MAP_DATA_TYPE_UINT64:
    case CU_TENSOR_MAP_DATA_TYPE_INT64:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT64: return 8;
    default: return 0; /* packed types are of other devices than the simulated one */
    }
}

static bool aligned(const void *p, uint64_t to)
{
    return p && (uint64_t)(uintptr_t)p % to == 0;
}

static bool valid_dimensions(unsigned rank, const cuuint64_t *dims, const cuuint64_t *strides, const cuuint32_t *box,
                             const cuuint32_t *element_strides, uint64_t alignment)
{
    for (unsigned i = 0; i < rank; i++) {
        if (!dims[i] || dims[i] > 1ull << 32 || !box[i] || box[i] > BOX_MAX) return false;
        if (!element_strides[i] || element_strides[i] > STRIDE_MAX) return false;
        if (i + 1 < rank && (strides[i] % alignment || strides[i] >= 1ull << 40)) return false;
    }
    return true;
}

CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
                                const cuuint64_t *dims, const cuuint64_t *strides, const cuuint32_t *box,
                                const cuuint32_t *element_strides, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
    SIM_ENTER(cuTensorMapEncodeTiled);
    bool wide = interleave == CU_TENSOR_MAP_INTERLEAVE_32B, plain = interleave == CU_TENSOR_MAP_INTERLEAVE_NONE;
    uint64_t alignment = wide ? WIDE_ALIGNMENT : ALIGNMENT;
    (void)swizzle, (void)promotion, (void)fill;
    if (!aligned(map, MAP_ALIGNMENT) || !aligned(address, alignment) || !element_bytes(type)) return CUDA_ERROR_INVALID_VALUE;
    if (!rank || rank > RANK_MAX || (!plain && rank < 3) || !dims || !box || !element_strides || (rank > 1 && !strides))
        return CUDA_ERROR_INVALID_VALUE;
    if (!valid_dimensions(rank, dims, strides, box, element_strides, alignment)) return CUDA_ERROR_INVALID_VALUE;
    if (plain && box[0] * element_bytes(type) % ALIGNMENT) return CUDA_ERROR_INVALID_VALUE;
    struct encoded e = { .magic = magic, .address = (uint64_t)(uintptr_t)address, .type = (uint64_t)type, .rank = rank };
    memcpy(e.dims, dims, rank * sizeof *dims);
    memcpy(e.box, box, rank * sizeof *box);
    memset(map, 0, sizeof *map);
    memcpy(map, &e, sizeof e);
    return CUDA_SUCCESS;
}

CUresult cuTensorMapReplaceAddress(CUtensorMap *map, void *address)
{
    SIM_ENTER(cuTensorMapReplaceAddress);
    struct encoded e;
    if (!aligned(map, MAP_ALIGNMENT) || !aligned(address, ALIGNMENT)) return CUDA_ERROR_INVALID_VALUE;
    memcpy(&e, map, sizeof e);
    if (e.magic != magic) return CUDA_ERROR_INVALID_VALUE;
    e.address = (uint64_t)(uintptr_t)address;
    memcpy(map, &e, sizeof e);
    return CUDA_SUCCESS;
}
