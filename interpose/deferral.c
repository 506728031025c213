#include "deferral.h"

#include "capture.h"
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

/* The block is WAITING from here on, and its record the caller's. */
static CUresult begin(const struct nxm_block *block, CUcontext context, struct nxm_waiting **ret_entry)
{
    struct nxm_waiting *entry = nxm_waiting_new(block);

    if (!entry)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (nxm_blocks_claim(nxm_table(NXM_TABLE_MEMORY), block->address, block->id, NXM_BLOCK_LIVE, NXM_BLOCK_WAITING, NULL) !=
        NXM_OK) {
        nxm_waiting_free(entry);
        return nxm_tally_misuse(NXM_MISUSE_TWICE, block->address, block);
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
    nxm_lane_append(order->cuda.stream_key, entry);
    return CUDA_SUCCESS;
}

static CUresult park(const struct nxm_block *block, struct nxm_waiting *entry)
{
    CUresult result = nxm_capture_forbids(entry->context);

    if (result == CUDA_SUCCESS) {
        nxm_lane_append(context_key(entry->context), entry);
        if (!nxm_capture_open()) /* who closed the last one may have looked before: now somebody sees the block */
            nxm_lane_captures_closed();
    } else {
        back_to_live(block);
        nxm_waiting_free(entry);
    }
    return result;
}

/* The program waits for this free: what the plugin says of it is the free's result. Where the release might wait, and a capture
 * that is open forbids that, the block is put on a lane until that may be. */
static CUresult release_now(struct nxm_waiting *entry)
{
    struct nxm_error error = { 0 };
    CUcontext context = entry->context;
    int result = nxm_giveback(entry, NXM_MOMENT_CONTEXT, &error);

    if (result == NXM_EUNSUPPORTED) {
        atomic_store(&entry->orphan, !context); /* behind nothing */
        nxm_lane_append(context_key(context), entry);
        return CUDA_SUCCESS;
    }
    nxm_waiting_free(entry);
    if (result != NXM_OK)
        return nxm_cuda_status(result, &error);
    nxm_lane_poll_context(context);
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
        nxm_lane_append(context_key(entry->context), entry);
        return CUDA_SUCCESS;
    }
    result = nxm_event_wait(entry->event);
    if (result == CUDA_SUCCESS)
        return release_now(entry);
    back_to_live(block);
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
        nxm_lane_append(context_key(current), entry);
        return CUDA_SUCCESS;
    }
    return release_now(entry);
}
