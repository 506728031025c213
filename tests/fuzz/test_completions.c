/* core/deferred.c, queued.c and terminal.c: completions of any bytes for blocks that are queued, live, gone or were never
 * there. A model of a few blocks says what each must do; after each, every count is what the model has. */
#include <stdlib.h>
#include <string.h>

#include "core/allocator.h"
#include "core/blocks.h"
#include "core/module.h"
#include "support.h"
#include "tests/unit/stateful/judge.h"
#include "tests/unit/support/fake.h"

#define BLOCKS 4
#define STEPS_MAX 64

enum where { LIVE, ENTERING, QUEUED, GONE };

struct tracked {
    struct nxm_block block;
    enum where where;
    uint64_t ticket;
};

static struct nxm_module *module;

static struct {
    struct nxm_blocks *table;
    struct nxm_allocator *allocator;
    struct tracked blocks[BLOCKS];
    unsigned count;
    uint64_t told; /* calls of the callback */
    struct nxm_release last_told;
    uint64_t quarantined_blocks, quarantined_bytes;
} now;

/* --- what the model has, and what the host has --------------------------------------------------------------------- */

static uint64_t blocks_in(enum where first, enum where last)
{
    uint64_t count = 0;

    for (unsigned i = 0; i < now.count; i++)
        count += now.blocks[i].where >= first && now.blocks[i].where <= last;
    return count;
}

/* While the callback runs, what keeps the table alive still counts the release that it is about. */
static void check_counts(uint64_t outstanding)
{
    struct nxm_allocator_totals totals;
    struct nxm_gate gate;

    nxm_module_query_gate(module, &gate);
    FUZZ_CHECK(gate.host.allocators == 1);
    FUZZ_CHECK(gate.host.allocations == blocks_in(LIVE, QUEUED));
    FUZZ_CHECK(gate.host.queued == blocks_in(ENTERING, QUEUED));
    nxm_allocator_totals(now.allocator, &totals);
    FUZZ_CHECK(totals.queued == outstanding);
    FUZZ_CHECK(totals.quarantined_blocks == now.quarantined_blocks);
    FUZZ_CHECK(totals.quarantined_bytes == now.quarantined_bytes);
    for (unsigned i = 0; i < now.count; i++) {
        const struct tracked *tracked = &now.blocks[i];
        struct nxm_block found;
        bool there = nxm_blocks_find(now.table, tracked->block.address, &found) == NXM_OK;

        FUZZ_CHECK(there == (tracked->where != GONE));
        FUZZ_CHECK(!there || found.state == (tracked->where == LIVE ? NXM_BLOCK_LIVE : NXM_BLOCK_RELEASING));
    }
}

/* The model's side of a release that has ended. */
static void settle(struct tracked *tracked, const struct nxm_release *release)
{
    FUZZ_CHECK(release->unmapped <= tracked->block.bytes);
    FUZZ_CHECK(release->retained <= tracked->block.bytes || release->retained <= tracked->block.owned);
    FUZZ_CHECK(release->outcome == NXM_RELEASE_QUARANTINED || release->retained == 0);
    tracked->where = release->outcome == NXM_RELEASE_FAILED ? LIVE : GONE;
    if (release->outcome == NXM_RELEASE_QUARANTINED) {
        now.quarantined_blocks++;
        now.quarantined_bytes += release->retained;
    }
}

/* --- a completion --------------------------------------------------------------------------------------------------- */

static struct tracked *find(uint64_t id)
{
    for (unsigned i = 0; i < now.count; i++) {
        if (now.blocks[i].block.id == id)
            return &now.blocks[i];
    }
    return NULL;
}

static void completed(void *owner, const struct nxm_block *block, const struct nxm_release *release)
{
    struct tracked *tracked = find(block->id);

    (void)owner;
    now.told++;
    now.last_told = *release;
    FUZZ_CHECK(tracked != NULL && (tracked->where == ENTERING || tracked->where == QUEUED));
    settle(tracked, release);
    check_counts(blocks_in(ENTERING, QUEUED) + 1);
}

static NxmemReleaseCompletion make_completion(struct fuzz_input *input)
{
    const struct tracked *about = &now.blocks[fuzz_u8(input) % now.count];
    NxmemReleaseCompletion completion;

    if (fuzz_one_in(input, 8))
        fuzz_fill(input, &completion, sizeof completion);
    else
        memset(&completion, 0, sizeof completion);
    completion.struct_size = fuzz_one_in(input, 6) ? (uint32_t)fuzz_number(input, sizeof completion) : sizeof completion;
    completion.mechanism_id = nxm_allocator_mechanism_id(now.allocator) + fuzz_one_in(input, 8);
    completion.allocation_id = fuzz_one_in(input, 6) ? fuzz_number(input, about->block.id + 1) : about->block.id;
    completion.ticket = fuzz_one_in(input, 6) ? fuzz_number(input, about->ticket) : about->ticket;
    completion.outcome.struct_size = (uint32_t)fuzz_number(input, sizeof completion.outcome);
    completion.outcome.state = fuzz_one_in(input, 8) ? fuzz_u32(input) : fuzz_u8(input) % 4;
    completion.outcome.unmapped_bytes = fuzz_number(input, about->block.bytes);
    completion.outcome.residual_owned_bytes = fuzz_one_in(input, 2) ? fuzz_number(input, about->block.bytes) : 0;
    completion.outcome.failure.code = fuzz_u8(input) % 16;
    return completion;
}

static uint32_t expected_code(const NxmemReleaseCompletion *completion, const struct tracked *tracked)
{
    if (completion->struct_size < sizeof *completion)
        return NXMEM_STATUS_SHORT_STRUCT;
    if (completion->mechanism_id != nxm_allocator_mechanism_id(now.allocator))
        return NXMEM_STATUS_WRONG_MECHANISM;
    if (tracked == NULL || (tracked->where != ENTERING && tracked->where != QUEUED) ||
        (tracked->where == QUEUED && tracked->ticket != completion->ticket))
        return NXMEM_STATUS_UNKNOWN_ALLOCATION;
    return NXMEM_STATUS_OK;
}

/* The struct ends where it says. */
static void send(struct fuzz_input *input)
{
    NxmemReleaseCompletion completion = make_completion(input);
    size_t size = completion.struct_size < sizeof completion ? completion.struct_size : sizeof completion;
    const NxmemHostCallbacks *callbacks = fake.last_callbacks;
    struct tracked *tracked = find(completion.allocation_id);
    uint32_t expected = expected_code(&completion, tracked), code;
    uint64_t told = now.told + (expected == NXMEM_STATUS_OK);
    void *exact = fuzz_exact(&completion, size < 4 ? 4 : size);

    code = callbacks->release_completed(callbacks->host_ctx, exact).code;
    free(exact);
    FUZZ_CHECK(code == expected);
    FUZZ_CHECK(now.told == told);
    if (expected == NXMEM_STATUS_OK) {
        struct nxm_release wanted = judge_outcome(completion.outcome, &tracked->block);

        FUZZ_CHECK(judge_same(&now.last_told, &wanted));
    }
}

static void send_nothing(uint8_t how)
{
    const NxmemHostCallbacks *callbacks = fake.last_callbacks;
    NxmemReleaseCompletion completion = { .struct_size = sizeof completion };
    const void *published = how % 3 == 0 ? NULL : how % 3 == 1 ? (const void *)(uintptr_t)(how | 1u) : &completion;
    void *ctx = how % 3 == 2 ? NULL : callbacks->host_ctx;

    FUZZ_CHECK(callbacks->release_completed(ctx, published).code == NXMEM_STATUS_INVALID_ARGUMENT);
}

/* --- queueing: our own way into the plugin, so that the answer is the input's ------------------------------------------- */

static NxmemStatus answer_enqueue(void *argument, const NxmemAllocation *allocation, uint64_t *ticket)
{
    struct fuzz_input *input = argument;
    struct tracked *tracked = find(allocation->allocation_id);

    FUZZ_CHECK(tracked != NULL && tracked->where == LIVE);
    tracked->where = ENTERING;
    check_counts(blocks_in(ENTERING, QUEUED)); /* counted before the plugin was entered */
    for (unsigned sent = fuzz_u8(input) % 4; sent > 1; sent--)
        send(input);
    tracked->ticket = fuzz_u8(input) % 4; /* tickets may repeat: it is the id that tells entries apart */
    *ticket = tracked->ticket;
    return (NxmemStatus){ .code = fuzz_one_in(input, 3) ? fuzz_u8(input) % 17u : 0 };
}

static void enqueue(struct fuzz_input *input, struct tracked *tracked)
{
    uint64_t told = now.told;
    struct nxm_release release = { 0 };
    struct nxm_error error = { .code = NXM_OK };
    int result;

    if (tracked->where != LIVE) {
        result = nxm_allocator_enqueue(now.allocator, tracked->block.address, tracked->block.id, NXM_BLOCK_LIVE, answer_enqueue,
                                       input, &release, &error);
        FUZZ_CHECK(result == (tracked->where == GONE ? NXM_ENOENT : NXM_EBUSY));
        return;
    }
    result = nxm_allocator_enqueue(now.allocator, tracked->block.address, tracked->block.id, NXM_BLOCK_LIVE, answer_enqueue,
                                   input, &release, &error);
    if (tracked->where != ENTERING) { /* its completion came inside the call, and wins */
        FUZZ_CHECK(now.told > told);
        FUZZ_CHECK(result == (tracked->where == LIVE ? NXM_ECALL : NXM_OK));
        FUZZ_CHECK(result != NXM_OK || release.outcome != NXM_RELEASE_QUEUED);
    } else if (result == NXM_OK && release.outcome == NXM_RELEASE_QUEUED) {
        FUZZ_CHECK(release.ticket == tracked->ticket);
        tracked->where = QUEUED;
    } else if (result == NXM_OK) {
        FUZZ_CHECK(release.outcome == NXM_RELEASE_QUARANTINED && judge_leaves_doubt(release.status));
        FUZZ_CHECK(release.unmapped == 0 && release.retained == tracked->block.bytes);
        settle(tracked, &release);
    } else {
        FUZZ_CHECK(result == NXM_ECALL && error.status != 0 && !judge_leaves_doubt(error.status));
        tracked->where = LIVE;
    }
}

/* --- a run ------------------------------------------------------------------------------------------------------------- */

static void begin(struct fuzz_input *input)
{
    struct nxm_allocator_options options = { .completed = completed };

    memset(&now, 0, sizeof now);
    fake_reset();
    if (module == NULL)
        FUZZ_CHECK(nxm_module_load(UNIT_DIR "/plugins/fake.so", NULL, &module, NULL) == NXM_OK);
    FUZZ_CHECK(nxm_blocks_new(&now.table) == NXM_OK);
    options.blocks = now.table;
    FUZZ_CHECK(nxm_allocator_open(module, 0, &options, &now.allocator, NULL) == NXM_OK);
    for (unsigned wanted = 1 + fuzz_u8(input) % BLOCKS; now.count < wanted; now.count++) {
        struct nxm_block block = { .bytes = fuzz_u8(input) * 16u, .align = 64, .class_ = NXM_CLASS_DEVICE };

        fake.owned = block.bytes + fuzz_u8(input);
        FUZZ_CHECK(nxm_allocator_allocate(now.allocator, &block, NULL, NULL, NULL) == NXM_OK);
        now.blocks[now.count].block = block;
    }
}

/* What is still queued completes; what is live goes back at teardown; nothing is left on either side. */
static void end(void)
{
    const NxmemHostCallbacks *callbacks = fake.last_callbacks;
    uint64_t mechanism = nxm_allocator_mechanism_id(now.allocator);
    struct nxm_gate gate;

    for (unsigned i = 0; i < now.count; i++) {
        struct tracked *tracked = &now.blocks[i];
        bool queued = tracked->where == QUEUED;
        uint32_t code = fake_send(callbacks, mechanism, tracked->block.id, tracked->ticket, NXMEM_RELEASE_COMPLETE);

        FUZZ_CHECK(code == (queued ? NXMEM_STATUS_OK : NXMEM_STATUS_UNKNOWN_ALLOCATION));
    }
    check_counts(0);
    nxm_allocator_unref(now.allocator);
    nxm_module_query_gate(module, &gate);
    FUZZ_CHECK(gate.host.allocators == 0 && gate.host.allocations == 0 && gate.host.queued == 0);
    FUZZ_CHECK(fake.opens == fake.releases);
    nxm_blocks_free(now.table);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    struct fuzz_input input = { data, length };

    begin(&input);
    for (unsigned step = 0; step < STEPS_MAX && input.left != 0; step++) {
        uint8_t what = fuzz_u8(&input);

        if (what % 8 == 0)
            send_nothing(what / 8);
        else if (what % 2 == 0)
            enqueue(&input, &now.blocks[what / 8 % now.count]);
        else
            send(&input);
        check_counts(blocks_in(ENTERING, QUEUED));
    }
    end();
    return 0;
}
