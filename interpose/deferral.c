#include "deferral.h"

#include "core/lock.h"
#include "cuda_status.h"
#include "giveback.h"
#include "lane.h"
#include "process.h"
#include "real.h"
#include "tally.h"

static uint64_t context_key(CUcontext context)
{
    return (UINT64_C(3) << 62) | (uint64_t)(uintptr_t)context;
}

static void back_to_live(const struct nxm_block *block)
{
    nxm_blocks_claim(nxm_table(NXM_TABLE_MEMORY), block->address, block->id, NXM_BLOCK_WAITING, NXM_BLOCK_LIVE, NULL);
}

/* The event is recorded and the block WAITING: hand it to the lane, or, without memory for that, wait here. */
static void wait_on_lane(uint64_t key, struct nxm_waiting *entry)
{
    struct nxm_error error = { 0 };

    if (nxm_lane_append(key, entry))
        return;
    nxm_event_wait(entry->event);
    nxm_giveback(entry, NXM_MOMENT_CONTEXT, &error);
    nxm_waiting_free(entry);
}

/* The block is WAITING from here on, and its record the caller's. */
static CUresult begin(const struct nxm_block *block, CUcontext context, struct nxm_waiting **ret_entry)
{
    struct nxm_waiting *entry = nxm_waiting_new(block);

    if (!entry)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (nxm_blocks_claim(nxm_table(NXM_TABLE_MEMORY), block->address, block->id, NXM_BLOCK_LIVE, NXM_BLOCK_WAITING, NULL) !=
        NXM_OK) {
        nxm_waiting_free(entry);
        return nxm_tally_misuse("freed twice", block->address);
    }
    entry->context = context;
    *ret_entry = entry;
    return CUDA_SUCCESS;
}

CUresult nxm_deferral_on_stream(const struct nxm_block *block, const struct nxm_order *order)
{
    bool per_thread = order->cuda.flags & NXMEM_CUDA_ORDER_FLAG_PER_THREAD;
    struct nxm_waiting *entry = NULL;
    CUresult result = begin(block, order->context, &entry);

    if (result != CUDA_SUCCESS)
        return result;
    result = nxm_event_record_on_stream(order->context, (CUstream)(uintptr_t)order->cuda.stream, per_thread,
                                                 &entry->event);
    if (result != CUDA_SUCCESS) {
        back_to_live(block);
        nxm_waiting_free(entry);
        return result;
    }
    wait_on_lane(order->cuda.stream_key, entry);
    return CUDA_SUCCESS;
}

/* The driver's own prohibition, asked with the smallest call of the same class. */
static CUresult capture_forbids(CUcontext context)
{
    CUcontext current = NULL;
    CUdeviceptr probe = 0;
    bool pushed = (nxm_real.cuCtxGetCurrent(&current) != CUDA_SUCCESS || current != context) &&
                  nxm_real.cuCtxPushCurrent_v2(context) == CUDA_SUCCESS;
    CUresult result = nxm_real.cuMemAlloc_v2(&probe, 1);

    if (result == CUDA_SUCCESS)
        nxm_real.cuMemFree_v2(probe);
    if (pushed)
        nxm_real.cuCtxPopCurrent_v2(&current);
    return result == CUDA_ERROR_OUT_OF_MEMORY ? CUDA_SUCCESS : result;
}

static CUresult park(const struct nxm_block *block, struct nxm_waiting *entry)
{
    CUresult result = capture_forbids(entry->context);

    if (result == CUDA_SUCCESS && nxm_lane_append(context_key(entry->context), entry))
        return CUDA_SUCCESS;
    back_to_live(block);
    nxm_waiting_free(entry);
    return result != CUDA_SUCCESS ? result : CUDA_ERROR_OUT_OF_MEMORY;
}

/* The program waits for this free: what the plugin says of it is the free's result. */
static CUresult release_now(struct nxm_waiting *entry)
{
    struct nxm_error error = { 0 };
    int result = nxm_giveback(entry, NXM_MOMENT_CONTEXT, &error);

    if (result != NXM_OK)
        return nxm_cuda_status(result, &error);
    nxm_lane_poll_context(entry->context);
    return CUDA_SUCCESS;
}

CUresult nxm_deferral_on_context(const struct nxm_block *block, bool wait)
{
    struct nxm_waiting *entry = NULL;
    CUresult result = begin(block, (CUcontext)(uintptr_t)block->context, &entry);

    if (result != CUDA_SUCCESS)
        return result;
    result = nxm_event_record_on_context(entry->context, &entry->event);
    if (result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) /* a capture is open: ours to say, nothing was asked */
        return park(block, entry);
    if (result != CUDA_SUCCESS) {
        back_to_live(block);
        nxm_waiting_free(entry);
        return result;
    }
    if (!wait && nxm_real.cuCtxRecordEvent) { /* without it the record itself has waited */
        wait_on_lane(context_key(entry->context), entry);
        return CUDA_SUCCESS;
    }
    result = nxm_event_wait(entry->event);
    if (result != CUDA_SUCCESS)
        back_to_live(block);
    else
        result = release_now(entry);
    nxm_waiting_free(entry);
    return result;
}

CUresult nxm_deferral_ordered(const struct nxm_block *block, CUcontext current)
{
    struct nxm_waiting *entry = NULL;
    CUresult result = begin(block, current, &entry);

    if (result != CUDA_SUCCESS)
        return result;
    result = current ? nxm_event_record_on_context(current, &entry->event) : CUDA_ERROR_INVALID_CONTEXT;
    if (result == CUDA_SUCCESS) {
        wait_on_lane(context_key(current), entry);
        return CUDA_SUCCESS;
    }
    result = release_now(entry);
    nxm_waiting_free(entry);
    return result;
}
