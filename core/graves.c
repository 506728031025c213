#include "graves.h"

#include <stdatomic.h>
#include <string.h>

#define GRAVE_BITS 12
#define GRAVE_COUNT (1u << GRAVE_BITS)

/* `turn` is odd while somebody writes; whoever reads wants the same even one before and after. */
struct grave {
    atomic_uint turn;
    _Atomic uint32_t allocated, freed; /* stacks */
    _Atomic uint32_t kind;             /* API and class */
    _Atomic uint64_t address, bytes, id;
};

static struct grave graves[GRAVE_COUNT];

static struct grave *place_of(uint64_t address)
{
    return &graves[(address >> 8) * UINT64_C(0x9E3779B97F4A7C15) >> (64 - GRAVE_BITS)];
}

#define SET(field, value) atomic_store_explicit(&grave->field, (value), memory_order_relaxed)
#define GET(field) atomic_load_explicit(&grave->field, memory_order_relaxed)

void nxm_graves_bury(const struct nxm_block *block, uint32_t stack)
{
    struct grave *grave = place_of(block->address);
    unsigned turn = GET(turn);

    /* Two that meet here: one goes without a grave. */
    if (turn % 2 != 0 || !atomic_compare_exchange_strong_explicit(&grave->turn, &turn, turn + 1, memory_order_acquire,
                                                                  memory_order_relaxed))
        return;
    atomic_thread_fence(memory_order_release);
    SET(address, block->address);
    SET(bytes, block->bytes);
    SET(id, block->id);
    SET(kind, (uint32_t)block->api << 8 | block->class_);
    SET(allocated, block->stack);
    SET(freed, stack);
    atomic_store_explicit(&grave->turn, turn + 2, memory_order_release);
}

bool nxm_graves_find(uint64_t address, struct nxm_block *ret_block, uint32_t *ret_stack)
{
    struct grave *grave = place_of(address);
    unsigned turn = atomic_load_explicit(&grave->turn, memory_order_acquire);

    memset(ret_block, 0, sizeof *ret_block);
    ret_block->address = GET(address);
    ret_block->bytes = GET(bytes);
    ret_block->id = GET(id);
    ret_block->api = (uint16_t)(GET(kind) >> 8);
    ret_block->class_ = (uint8_t)GET(kind);
    ret_block->stack = GET(allocated);
    *ret_stack = GET(freed);
    atomic_thread_fence(memory_order_acquire);
    return turn != 0 && turn % 2 == 0 && GET(turn) == turn && ret_block->address == address;
}
