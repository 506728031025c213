#include "observe.h"

#include "lane.h"
#include "order.h"
#include "real.h"
#include "serve.h"
#include "tally.h"

void nxm_observe(enum nxm_table table, enum nxm_class class_, enum nxm_api api, uint64_t key, uint64_t bytes)
{
    struct nxm_order order;
    struct nxm_block block = { .address = key, .bytes = bytes, .class_ = (uint8_t)class_, .api = (uint16_t)api,
                               .device = -1 };

    if (key == 0)
        return;
    if (nxm_order_synchronous(&order) == CUDA_SUCCESS) {
        block.context = (uint64_t)(uintptr_t)order.context;
        block.device = order.device;
    }
    nxm_record(nxm_table(table), &block);
}

bool nxm_observe_made_room(enum nxm_mode mode, CUresult result)
{
    if (mode != NXM_MODE_SERVE || result != CUDA_ERROR_OUT_OF_MEMORY || !nxm_lane_room_since(nxm_lane_given()))
        return false;
    nxm_lane_flush(NULL, nxm_options()->oom_wait_ms);
    return true;
}

static void note_refusal(enum nxm_table table, uint64_t key, const struct nxm_block *block)
{
    struct nxm_block around;

    if (block->id != 0)
        nxm_tally_misuse(NXM_MISUSE_OTHER_KIND, key, block);
    else if (nxm_blocks_containing(nxm_table(table), key, &around) == NXM_OK && around.address != key)
        nxm_tally_misuse(NXM_MISUSE_INSIDE, key, &around);
    else
        nxm_tally_misuse(NXM_MISUSE_NOT_ALLOCATED, key, NULL);
}

CUresult nxm_observe_free(enum nxm_mode mode, enum nxm_table table, uint64_t key, nxm_observed_free call, void *argument)
{
    struct nxm_block block;

    if (mode != NXM_MODE_SERVE && mode != NXM_MODE_LATE)
        return call(argument);
    nxm_record_free_begin(nxm_table(table), key, &block);
    CUresult result = call(argument);
    nxm_record_free_end(nxm_table(table), &block, result == CUDA_SUCCESS);
    if (mode == NXM_MODE_LATE && block.id != 0)
        nxm_tally_add(NXM_AMOUNT_FREED_DURING_EXIT, block.bytes);
    if (key != 0 && (table == NXM_TABLE_MEMORY || table == NXM_TABLE_REGISTERED) &&
        (result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED))
        note_refusal(table, key, &block);
    return result;
}

void nxm_observe_runtime(enum nxm_api api, uint64_t address, uint64_t bytes, enum nxm_class class_)
{
    struct nxm_block known;
    enum nxm_table table = class_ == NXM_CLASS_ARRAY        ? NXM_TABLE_ARRAYS
                           : class_ == NXM_CLASS_REGISTERED ? NXM_TABLE_REGISTERED
                                                            : NXM_TABLE_MEMORY;
    enum nxm_mode mode = nxm_enter(__builtin_return_address(0), true);

    if (mode == NXM_MODE_SERVE && nxm_blocks_find(nxm_table(table), address, &known) != NXM_OK)
        nxm_observe(table, class_, api, address, bytes);
    nxm_leave(mode);
}

void nxm_observe_runtime_free(uint64_t address)
{
    enum nxm_mode mode = nxm_enter(__builtin_return_address(0), false);
    struct nxm_block block;

    if (mode == NXM_MODE_SERVE) {
        static const enum nxm_table searched[] = { NXM_TABLE_MEMORY, NXM_TABLE_ARRAYS, NXM_TABLE_REGISTERED };
        for (unsigned i = 0; i < sizeof searched / sizeof *searched; i++) {
            if (nxm_blocks_find(nxm_table(searched[i]), address, &block) != NXM_OK || block.allocator)
                continue;
            nxm_record_free_begin(nxm_table(searched[i]), address, &block);
            nxm_record_free_end(nxm_table(searched[i]), &block, true);
            break;
        }
    }
    nxm_leave(mode);
}
