/* core/blocks.c: any sequence of inserts, claims, counts, removals, queries and failures of memory, against a plain array kept
 * in the order of addresses.
 */
#include <stdlib.h>
#include <string.h>

#include "core/blocks.h"
#include "core/mem.h"
#include "core/result.h"
#include "support.h"

#define MOST 256u

static struct {
    struct nxm_block blocks[MOST];
    size_t count;
    struct nxm_class_totals totals[NXM_CLASS_COUNT];
} model;

/* The first entry at that address or behind. */
static size_t place_of(uint64_t address)
{
    size_t at = 0;

    while (at < model.count && model.blocks[at].address < address)
        at++;
    return at;
}

static struct nxm_block *exact(uint64_t address)
{
    size_t at = place_of(address);

    return at < model.count && model.blocks[at].address == address ? &model.blocks[at] : NULL;
}

static const struct nxm_block *containing(uint64_t address)
{
    const struct nxm_block *there = exact(address);

    for (size_t at = model.count; there == NULL && at-- > 0;) {
        if (model.blocks[at].address <= address && address - model.blocks[at].address < model.blocks[at].bytes)
            there = &model.blocks[at];
    }
    return there;
}

static void leave(struct nxm_block *block)
{
    size_t at = (size_t)(block - model.blocks);

    model.totals[block->class_].live_blocks--;
    model.totals[block->class_].live_bytes -= block->bytes;
    memmove(block, block + 1, (model.count - at - 1) * sizeof *block);
    model.count--;
}

static void enter(const struct nxm_block *block)
{
    struct nxm_class_totals *totals = &model.totals[block->class_];
    size_t at = place_of(block->address);

    memmove(&model.blocks[at + 1], &model.blocks[at], (model.count - at) * sizeof *block);
    model.blocks[at] = *block;
    model.count++;
    totals->live_blocks++;
    totals->ever_blocks++;
    totals->live_bytes += block->bytes;
    totals->ever_bytes += block->bytes;
    if (totals->live_bytes > totals->peak_bytes)
        totals->peak_bytes = totals->live_bytes;
}

/* Near others, inside of them, at the ends of what the table divides addresses into, anywhere. */
static uint64_t any_address(struct fuzz_input *input)
{
    static const uint64_t bases[] = { 0, 0x7f0000000000, 0x7f00ffff0000, 0xfffffff00000, 0x1000000000000, UINT64_MAX - 0xffff };
    uint8_t kind = fuzz_u8(input);

    if (kind % 4 == 0 && model.count > 0) {
        const struct nxm_block *block = &model.blocks[kind / 4 % model.count];

        return block->address + fuzz_number(input, block->bytes);
    }
    if (kind % 4 == 1 && model.count > 0)
        return model.blocks[kind / 4 % model.count].address;
    return bases[kind % 6] + fuzz_number(input, 0x10000) % (UINT64_C(1) << (kind / 6 % 34));
}

/* More than there are addresses: what the peak of that is, nobody says (core/peak.h). */
static bool too_much(const struct nxm_block *block)
{
    return block->class_ < NXM_CLASS_COUNT && block->bytes > UINT64_MAX - model.totals[block->class_].live_bytes;
}

static void insert(struct fuzz_input *input, struct nxm_blocks *table)
{
    struct nxm_block block;
    struct nxm_block *there;
    int result;

    memset(&block, 0, sizeof block);
    block.address = any_address(input);
    block.bytes = fuzz_number(input, 4096) >> fuzz_u8(input) % 64;
    block.tag = fuzz_u8(input) % 3;
    block.owned = fuzz_number(input, block.bytes);
    block.class_ = fuzz_u8(input) % (NXM_CLASS_COUNT + 1);
    block.state = (uint8_t[]){ 1, 1, 1, 2, 4, 0, 3, 1 }[fuzz_u8(input) % 8];
    block.id = fuzz_one_in(input, 16) ? 0 : nxm_block_next_id();
    there = exact(block.address);
    if ((there == NULL && model.count == MOST) || too_much(&block))
        return;
    if (fuzz_one_in(input, 4))
        nxm_mem_fail_at(1 + fuzz_u8(input) % 2);
    result = nxm_blocks_insert(table, &block);
    nxm_mem_fail_at(0);
    if (block.class_ == NXM_CLASS_COUNT || block.id == 0 || block.state == 0 || block.state == 3) {
        FUZZ_CHECK(result == NXM_EINVAL);
    } else if (there != NULL && there->state != NXM_BLOCK_RELEASING) {
        FUZZ_CHECK(result == NXM_EEXIST);
    } else if (result != NXM_ENOMEM) {
        FUZZ_CHECK(result == NXM_OK);
        if (there != NULL)
            leave(there);
        enter(&block);
    }
}

static void claim(struct fuzz_input *input, struct nxm_blocks *table)
{
    uint64_t address = any_address(input);
    unsigned from = fuzz_u8(input) % 8;
    enum nxm_block_state to = (enum nxm_block_state)(1 << fuzz_u8(input) % 3);
    struct nxm_block *there = exact(address), met;
    uint64_t id = there == NULL || fuzz_one_in(input, 2) ? 0 : there->id + fuzz_one_in(input, 4);
    int result = nxm_blocks_claim(table, address, id, from, to, &met);

    if (there == NULL || (id != 0 && id != there->id)) {
        FUZZ_CHECK(result == NXM_ENOENT);
        return;
    }
    FUZZ_CHECK(memcmp(&met, there, sizeof met) == 0);
    FUZZ_CHECK(result == ((there->state & from) != 0 ? NXM_OK : NXM_EBUSY));
    if (result == NXM_OK)
        there->state = (uint8_t)to;
}

static void count(struct fuzz_input *input, struct nxm_blocks *table)
{
    uint64_t address = any_address(input);
    int delta = fuzz_one_in(input, 2) ? 1 : -1;
    struct nxm_block *there = exact(address), after;
    int result = nxm_blocks_count(table, address, delta, &after);

    if (there == NULL || there->state != NXM_BLOCK_LIVE) {
        FUZZ_CHECK(result == NXM_ENOENT);
        return;
    }
    there->tag += (uint64_t)(int64_t)delta;
    if (there->tag == 0)
        there->state = NXM_BLOCK_RELEASING;
    FUZZ_CHECK(result == NXM_OK && memcmp(&after, there, sizeof after) == 0);
}

static void remove_one(struct fuzz_input *input, struct nxm_blocks *table)
{
    uint64_t address = any_address(input);
    struct nxm_block *there = exact(address);
    uint64_t id = there == NULL ? 1 : there->id + fuzz_one_in(input, 4);
    int result = nxm_blocks_remove(table, address, id);

    FUZZ_CHECK(result == (there != NULL && there->id == id ? NXM_OK : NXM_ENOENT));
    if (result == NXM_OK)
        leave(there);
}

static void look(struct fuzz_input *input, struct nxm_blocks *table)
{
    uint64_t address = any_address(input);
    const struct nxm_block *there = exact(address);
    struct nxm_block found;

    FUZZ_CHECK(nxm_blocks_find(table, address, &found) == (there != NULL ? NXM_OK : NXM_ENOENT));
    FUZZ_CHECK(there == NULL || memcmp(&found, there, sizeof found) == 0);
    there = containing(address);
    FUZZ_CHECK(nxm_blocks_containing(table, address, &found) == (there != NULL ? NXM_OK : NXM_ENOENT));
    FUZZ_CHECK(there == NULL || memcmp(&found, there, sizeof found) == 0);
}

static bool visit(void *visits, const struct nxm_block *block)
{
    const struct nxm_block *there = exact(block->address);

    FUZZ_CHECK(there != NULL && memcmp(block, there, sizeof *block) == 0);
    ++*(size_t *)visits;
    return true;
}

static void compare_all(struct nxm_blocks *table)
{
    size_t visits = 0;

    nxm_blocks_each(table, visit, &visits);
    FUZZ_CHECK(visits == model.count);
    for (int i = 0; i < NXM_CLASS_COUNT; i++) {
        struct nxm_class_totals totals;

        nxm_blocks_totals(table, (enum nxm_class)i, &totals);
        FUZZ_CHECK(memcmp(&totals, &model.totals[i], sizeof totals) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    struct fuzz_input input = { data, length };
    struct nxm_blocks *table;

    memset(&model, 0, sizeof model);
    FUZZ_CHECK(nxm_blocks_new(&table) == NXM_OK);
    while (input.left > 0) {
        switch (fuzz_u8(&input) % 9) {
        case 0: case 1: case 2:
            insert(&input, table);
            break;
        case 3:
            claim(&input, table);
            break;
        case 4:
            count(&input, table);
            break;
        case 5: case 6:
            remove_one(&input, table);
            break;
        default:
            look(&input, table);
            break;
        }
    }
    compare_all(table);
    nxm_blocks_free(table);
    return 0;
}
