#include "managed.h"

/* One memory serves host and device here: hints are checked, remembered and have no other effect. */
#include "block.h"
#include "context.h"
#include "device.h"
#include "state.h"
#include "stream.h"

#include <string.h>

/* What was advised, for the whole allocation; kept in the block's backing_offset. */
struct advice {
    uint8_t read_mostly, preferred_type, prefetched_type;
    int8_t preferred_id, prefetched_id;
    uint8_t host_accesses;
    uint16_t accessed_by; /* bit n: device n */
};

_Static_assert(sizeof(struct advice) == sizeof(uint64_t), "fits a block");

static struct advice get_advice(const struct sim_block *b)
{
    struct advice a;
    memcpy(&a, &b->backing_offset, sizeof a);
    return a;
}

static void put_advice(struct sim_block *b, const struct advice *a)
{
    memcpy(&b->backing_offset, a, sizeof *a);
}

static struct sim_block *range(CUdeviceptr ptr, size_t bytes)
{
    struct sim_block *b = sim_block_containing(ptr);
    bool inside = b && b->kind == SIM_BLOCK_MANAGED && bytes && bytes <= b->range.size - (ptr - b->range.start);
    return inside ? b : NULL;
}

CUresult sim_managed_check(CUdeviceptr ptr, size_t bytes)
{
    sim_lock();
    CUresult result = range(ptr, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    sim_unlock();
    return result;
}

CUresult sim_managed_check_location(const CUmemLocation *l)
{
    if (l->type == CU_MEM_LOCATION_TYPE_DEVICE) return sim_device_get(l->id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
    return sim_host_location(l) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUmemLocation location_of(CUdevice device)
{
    if (device == CU_DEVICE_CPU) return (CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_HOST };
    return (CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device };
}

/* --- advice ------------------------------------------------------------------------------------------------------ */

static void set_accessed(struct advice *a, const CUmemLocation *l, bool on)
{
    if (l->type != CU_MEM_LOCATION_TYPE_DEVICE) a->host_accesses = on;
    else if (on) a->accessed_by |= (uint16_t)(1u << l->id);
    else a->accessed_by &= (uint16_t)~(1u << l->id);
}

static CUresult apply(struct advice *a, CUmem_advise advice, const CUmemLocation *l)
{
    bool needs_location = advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION || advice == CU_MEM_ADVISE_SET_ACCESSED_BY ||
                          advice == CU_MEM_ADVISE_UNSET_ACCESSED_BY;
    CUresult result = needs_location ? sim_managed_check_location(l) : CUDA_SUCCESS;
    if (result != CUDA_SUCCESS) return result;
    switch (advice) {
    case CU_MEM_ADVISE_SET_READ_MOSTLY: a->read_mostly = 1; break;
    case CU_MEM_ADVISE_UNSET_READ_MOSTLY: a->read_mostly = 0; break;
    case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
        a->preferred_type = (uint8_t)l->type;
        a->preferred_id = (int8_t)l->id;
        break;
    case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION: a->preferred_type = CU_MEM_LOCATION_TYPE_INVALID; break;
    case CU_MEM_ADVISE_SET_ACCESSED_BY: set_accessed(a, l, true); break;
    case CU_MEM_ADVISE_UNSET_ACCESSED_BY: set_accessed(a, l, false); break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

static CUresult advise(CUdeviceptr ptr, size_t bytes, CUmem_advise advice, CUmemLocation location)
{
    sim_lock();
    struct sim_block *b = range(ptr, bytes);
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    if (b) {
        struct advice a = get_advice(b);
        result = apply(&a, advice, &location);
        if (result == CUDA_SUCCESS) put_advice(b, &a);
    }
    sim_unlock();
    return result;
}

CUresult cuMemAdvise(CUdeviceptr ptr, size_t bytes, CUmem_advise advice, CUdevice device)
{
    SIM_ENTER(cuMemAdvise);
    return advise(ptr, bytes, advice, location_of(device));
}

CUresult cuMemAdvise_v2(CUdeviceptr ptr, size_t bytes, CUmem_advise advice, CUmemLocation location)
{
    SIM_ENTER(cuMemAdvise_v2);
    return advise(ptr, bytes, advice, location);
}

/* --- in stream order --------------------------------------------------------------------------------------------- */

CUresult sim_managed_hint(CUdeviceptr ptr, size_t bytes, const CUmemLocation *to, CUstream h, enum sim_default dflt,
                          enum sim_fn fn)
{
    struct sim_stream *s;
    sim_lock();
    CUresult result = sim_stream_get(h, dflt, &s);
    struct sim_block *b = range(ptr, bytes);
    if (result == CUDA_SUCCESS && !b) result = CUDA_ERROR_INVALID_VALUE;
    struct sim_work *w = result == CUDA_SUCCESS ? sim_work_new(fn) : NULL;
    if (result == CUDA_SUCCESS && !w) result = CUDA_ERROR_OUT_OF_MEMORY;
    if (w) {
        sim_work_touch_block(w, b);
        if (to) { /* what is remembered is the request, not the arrival */
            struct advice a = get_advice(b);
            a.prefetched_type = (uint8_t)to->type;
            a.prefetched_id = (int8_t)to->id;
            put_advice(b, &a);
        }
        result = sim_stream_submit(s, w);
    }
    sim_unlock();
    return result;
}

static CUresult prefetch(CUdeviceptr ptr, size_t bytes, CUmemLocation to, CUstream h, enum sim_default dflt,
                         enum sim_fn fn)
{
    CUresult result = sim_managed_check_location(&to);
    return result == CUDA_SUCCESS ? sim_managed_hint(ptr, bytes, &to, h, dflt, fn) : result;
}

SIM_TWIN(cuMemPrefetchAsync, _ptsz, (CUdeviceptr ptr, size_t bytes, CUdevice device, CUstream h),
         prefetch(ptr, bytes, location_of(device), h, dflt, fn))
SIM_TWIN(cuMemPrefetchAsync_v2, _ptsz,
         (CUdeviceptr ptr, size_t bytes, CUmemLocation location, unsigned int flags, CUstream h),
         flags ? CUDA_ERROR_INVALID_VALUE : prefetch(ptr, bytes, location, h, dflt, fn))

/* Length 0, or the whole block, from its start; one stream alone only by a stream that has a name. */
static CUresult attach(CUstream h, CUdeviceptr ptr, size_t bytes, unsigned flags, enum sim_default dflt, enum sim_fn fn)
{
    if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST && flags != CU_MEM_ATTACH_SINGLE)
        return CUDA_ERROR_INVALID_VALUE;
    if (flags == CU_MEM_ATTACH_SINGLE && (!h || h == CU_STREAM_LEGACY)) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_block *b = sim_block_at(ptr);
    bool whole = b && b->kind == SIM_BLOCK_MANAGED && (!bytes || bytes == b->size);
    if (whole) b->flags = flags;
    bytes = whole ? b->size : 0;
    sim_unlock();
    return whole ? sim_managed_hint(ptr, bytes, NULL, h, dflt, fn) : CUDA_ERROR_INVALID_VALUE;
}

SIM_TWIN(cuStreamAttachMemAsync, _ptsz, (CUstream h, CUdeviceptr ptr, size_t bytes, unsigned int flags),
         attach(h, ptr, bytes, flags, dflt, fn))

/* --- what is remembered -------------------------------------------------------------------------------------------- */

/* The older attributes know devices, the processor and none. */
static int device_number(unsigned type, int id)
{
    if (type == CU_MEM_LOCATION_TYPE_INVALID) return CU_DEVICE_INVALID;
    return type == CU_MEM_LOCATION_TYPE_DEVICE ? id : CU_DEVICE_CPU;
}

static void list_accessors(const struct advice *a, int *list, size_t room)
{
    size_t n = 0;
    if (a->host_accesses && n < room) list[n++] = CU_DEVICE_CPU;
    for (int d = 0; d < SIM_DEVICES_MAX && n < room; d++)
        if (a->accessed_by >> d & 1) list[n++] = d;
    while (n < room) list[n++] = CU_DEVICE_INVALID;
}

static CUresult answer(const struct advice *a, CUmem_range_attribute attribute, void *data, size_t size)
{
    int *n = data;
    bool list = attribute == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY;
    if (!data || size % sizeof *n || !size || (!list && size != sizeof *n)) return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY: *n = a->read_mostly; break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION: *n = device_number(a->preferred_type, a->preferred_id); break;
    case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY: list_accessors(a, data, size / sizeof *n); break;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION: *n = device_number(a->prefetched_type, a->prefetched_id); break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE: *n = a->preferred_type; break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID: *n = a->preferred_id; break;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE: *n = a->prefetched_type; break;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID: *n = a->prefetched_id; break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

static CUresult get(CUdeviceptr ptr, size_t bytes, CUmem_range_attribute attribute, void *data, size_t size)
{
    sim_lock();
    struct sim_block *b = range(ptr, bytes);
    struct advice a = b ? get_advice(b) : (struct advice){ 0 };
    sim_unlock();
    return b ? answer(&a, attribute, data, size) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemRangeGetAttribute(void *data, size_t size, CUmem_range_attribute attribute, CUdeviceptr ptr, size_t bytes)
{
    SIM_ENTER(cuMemRangeGetAttribute);
    return get(ptr, bytes, attribute, data, size);
}

CUresult cuMemRangeGetAttributes(void **data, size_t *sizes, CUmem_range_attribute *attributes, size_t count,
                                 CUdeviceptr ptr, size_t bytes)
{
    SIM_ENTER(cuMemRangeGetAttributes);
    if (!data || !sizes || !attributes || !count) return CUDA_ERROR_INVALID_VALUE;
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; result == CUDA_SUCCESS && i < count; i++) result = get(ptr, bytes, attributes[i], data[i], sizes[i]);
    return result;
}
