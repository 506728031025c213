#include "graves.h"

#include <string.h>

struct nxm_grave nxm_graves[NXM_GRAVE_COUNT];

bool nxm_graves_find(uint64_t address, struct nxm_block *ret_block, uint32_t *ret_stack)
{
    struct nxm_grave *grave = nxm_grave_of(nxm_shard_hash(address));
    uint64_t looked = nxm_spin_look(&grave->lock);

    memset(ret_block, 0, sizeof *ret_block);
    ret_block->address = NXM_GRAVE_GET(address);
    ret_block->bytes = NXM_GRAVE_GET(bytes);
    ret_block->id = NXM_GRAVE_GET(id);
    ret_block->api = (uint16_t)NXM_GRAVE_GET(kind);
    ret_block->class_ = (uint8_t)(NXM_GRAVE_GET(kind) >> 16);
    ret_block->stack = (uint32_t)NXM_GRAVE_GET(stacks);
    *ret_stack = (uint32_t)(NXM_GRAVE_GET(stacks) >> 32);
    return looked != 0 && nxm_spin_was_quiet(&grave->lock, looked) && ret_block->address == address;
}
