/* libnxmem_host's public face for allocators, blocks and what is mapped into them. */
#include "nxmem_host.h"

#include <string.h>

#include "accounts.h"
#include "allocator.h"
#include "backing.h"
#include "blocks.h"
#include "error.h"
#include "host.h"
#include "mem.h"
#include "module.h"
#include "shared.h"

/* Owned by whoever holds the handle; freed when core says that the allocator ended, which may be later. */
struct nxmem_host_allocator {
    struct nxm_allocator *core;
    struct nxm_blocks *blocks;
    struct nxm_provider *provider; /* one reference, or NULL */
    nxmem_host_options options;
};

static struct nxm_shared *shared_of(const nxmem_host_prefix *prefix)
{
    return (struct nxm_shared *)(uintptr_t)prefix;
}

static uint64_t number_of(const void *address)
{
    return (uint64_t)(uintptr_t)address;
}

/* --- what core calls ---------------------------------------------------------------------------------------- */

static nxmem_host_block public_block(const struct nxm_block *block)
{
    return (nxmem_host_block){
        .struct_size = sizeof(nxmem_host_block),
        .address = (void *)(uintptr_t)block->address,
        .bytes = block->bytes,
        .align = block->align,
        .id = block->id,
        .owned = block->owned,
        .mapped = block->mapped,
    };
}

/* Core's outcomes and the public ones are the same four. */
static nxmem_host_release_result public_release(const struct nxm_release *release)
{
    static const uint32_t outcomes[] = {
        [NXM_RELEASE_COMPLETE] = NXMEM_HOST_COMPLETE,
        [NXM_RELEASE_QUARANTINED] = NXMEM_HOST_QUARANTINED,
        [NXM_RELEASE_FAILED] = NXMEM_HOST_FAILED,
        [NXM_RELEASE_QUEUED] = NXMEM_HOST_QUEUED,
    };

    return (nxmem_host_release_result){
        .struct_size = sizeof(nxmem_host_release_result),
        .outcome = outcomes[release->outcome],
        .unmapped = release->unmapped,
        .retained = release->retained,
        .ticket = release->ticket,
        .status = release->status,
    };
}

static int64_t on_reclaim(void *owner, struct nxm_allocator *core, NxmemDeviceId device, uint64_t bytes)
{
    const struct nxmem_host_allocator *allocator = owner;

    (void)core;
    return allocator->options.reclaim(allocator->options.owner, device, bytes);
}

static void on_completed(void *owner, const struct nxm_block *block, const struct nxm_release *release)
{
    const struct nxmem_host_allocator *allocator = owner;
    nxmem_host_block shown = public_block(block);
    nxmem_host_release_result result = public_release(release);

    allocator->options.completed(allocator->options.owner, &shown, &result);
}

static void allocator_free(struct nxmem_host_allocator *allocator)
{
    nxm_blocks_free(allocator->blocks);
    nxm_provider_unref(allocator->provider);
    nxm_mem_free(allocator);
}

static void on_ended(void *owner)
{
    struct nxmem_host_allocator *allocator = owner;
    nxmem_host_options options = allocator->options;

    allocator_free(allocator);
    if (options.ended != NULL)
        options.ended(options.owner);
}

static bool on_pin(void *context)
{
    const struct nxmem_host_allocator *allocator = context;

    return allocator->options.pin(allocator->options.pin_context) != 0;
}

static void on_unpin(void *context)
{
    const struct nxmem_host_allocator *allocator = context;

    allocator->options.unpin(allocator->options.pin_context);
}

/* --- allocators --------------------------------------------------------------------------------------------- */

/* Beyond what this library knows only zeros will do: a wish that it cannot fulfil must not be lost. */
static bool is_known(const nxmem_host_options *options)
{
    const char *bytes = (const char *)options;

    for (uint32_t i = sizeof *options; i < options->struct_size; i++) {
        if (bytes[i] != 0)
            return false;
    }
    return true;
}

static const char *fault_of(const nxmem_host_options *options)
{
    if (!nxm_host_is_whole(options, NXM_FIRST_OPTIONS))
        return "the options' struct_size is too small: use NXMEM_HOST_SIZED";
    if (!is_known(options))
        return "the options say something that this library is too old for";
    if ((options->pin == NULL) != (options->unpin == NULL))
        return "a pin source needs both of its functions";
    if (options->pin != NULL && options->provider != NULL)
        return "an allocator is bound to one provider context, not two";
    return NULL;
}

static int allocator_new(const nxmem_host_options *options, struct nxmem_host_allocator **ret_allocator)
{
    struct nxmem_host_allocator *allocator = nxm_mem_new(sizeof *allocator);

    if (allocator == NULL)
        return NXM_ENOMEM;
    if (nxm_blocks_new(&allocator->blocks) != NXM_OK) {
        nxm_mem_free(allocator);
        return NXM_ENOMEM;
    }
    if (options != NULL)
        memcpy(&allocator->options, options, sizeof allocator->options);
    allocator->provider = nxm_host_provider(allocator->options.provider);
    if (allocator->provider != NULL)
        nxm_provider_ref(allocator->provider);
    *ret_allocator = allocator;
    return NXM_OK;
}

static struct nxm_pin_source pins_of(struct nxmem_host_allocator *allocator)
{
    if (allocator->provider != NULL)
        return nxm_provider_source(allocator->provider);
    if (allocator->options.pin != NULL)
        return (struct nxm_pin_source){ .pin = on_pin, .unpin = on_unpin, .context = allocator };
    return (struct nxm_pin_source){ .pin = NULL };
}

static int open_allocator(struct nxm_module *module, size_t mechanism, struct nxmem_host_allocator *allocator,
                          struct nxm_error *ret_error)
{
    struct nxm_allocator_options options = {
        .blocks = allocator->blocks,
        .required_capabilities = allocator->options.required_capabilities,
        .owner = allocator,
        .reclaim = allocator->options.reclaim == NULL ? NULL : on_reclaim,
        .completed = allocator->options.completed == NULL ? NULL : on_completed,
        .ended = on_ended,
        .pins = pins_of(allocator),
    };

    return nxm_allocator_open(module, mechanism, &options, &allocator->core, ret_error);
}

int nxmem_host_open(nxmem_host_plugin *plugin, size_t mechanism, const nxmem_host_options *options,
                    nxmem_host_allocator **ret_allocator, nxmem_host_error *error)
{
    const char *fault = options == NULL ? NULL : fault_of(options);
    struct nxmem_host_allocator *allocator = NULL;
    struct nxm_error found;
    int result;

    if (ret_allocator == NULL)
        return nxm_host_refuse(error, "opening needs a place for the handle");
    if (fault != NULL)
        return nxm_host_refuse(error, fault);
    result = allocator_new(options, &allocator);
    if (result != NXM_OK)
        return nxm_host_answer(nxm_error_set(&found, NXM_ENOMEM, 0, "no memory for an allocator's records"), &found, error);
    result = open_allocator((struct nxm_module *)plugin, mechanism, allocator, &found);
    if (result == NXM_OK)
        *ret_allocator = allocator;
    else
        allocator_free(allocator);
    return nxm_host_answer(result, &found, error);
}

void nxmem_host_close(nxmem_host_allocator *allocator)
{
    if (allocator != NULL)
        nxm_allocator_unref(allocator->core);
}

const char *nxmem_host_name(const nxmem_host_allocator *allocator)
{
    return nxm_allocator_name(allocator->core);
}

NxmemDeviceId nxmem_host_device(const nxmem_host_allocator *allocator)
{
    return nxm_allocator_device(allocator->core);
}

uint64_t nxmem_host_mechanism_id(const nxmem_host_allocator *allocator)
{
    return nxm_allocator_mechanism_id(allocator->core);
}

uint64_t nxmem_host_allocator_capabilities(const nxmem_host_allocator *allocator)
{
    return nxm_allocator_capabilities(allocator->core);
}

int nxmem_host_structured_release(const nxmem_host_allocator *allocator)
{
    return nxm_allocator_structured_release(allocator->core);
}

int nxmem_host_commits_on_demand(const nxmem_host_allocator *allocator)
{
    return nxm_allocator_virtual_backing(allocator->core) != NULL;
}

int nxmem_host_shares_prefixes(const nxmem_host_allocator *allocator)
{
    return nxm_allocator_shared_mapping(allocator->core) != NULL;
}

void nxmem_host_statistics_of(nxmem_host_allocator *allocator, nxmem_host_statistics *ret_statistics)
{
    struct nxm_allocator_totals totals;
    struct nxm_class_totals blocks;
    nxmem_host_statistics out;

    nxm_allocator_totals(allocator->core, &totals);
    nxm_blocks_totals(allocator->blocks, NXM_CLASS_DEVICE, &blocks);
    out = (nxmem_host_statistics){
        .live_blocks = blocks.live_blocks,
        .live_bytes = blocks.live_bytes,
        .peak_bytes = blocks.peak_bytes,
        .ever_blocks = blocks.ever_blocks,
        .ever_bytes = blocks.ever_bytes,
        .owned_bytes = totals.owned_bytes,
        .mapped_bytes = totals.mapped_bytes,
        .queued = totals.queued,
        .quarantined_blocks = totals.quarantined_blocks,
        .quarantined_bytes = totals.quarantined_bytes,
        .views = totals.views,
        .view_owned_bytes = totals.view_owned_bytes,
        .view_mapped_bytes = totals.view_mapped_bytes,
        .reclaim_calls = totals.reclaim_calls,
        .reclaim_failures = totals.reclaim_failures,
    };
    nxm_host_give(ret_statistics, &out, sizeof out, NXM_FIRST_STATISTICS);
}

/* --- blocks ------------------------------------------------------------------------------------------------- */

static const char no_ranges[] = "there are no ranges, and they are counted";

static bool lacks(const NxmemByteRange *ranges, uint64_t count)
{
    return ranges == NULL && count != 0;
}

/* The place for the block is looked at first: what nobody can name nobody can release. */
static int allocate(nxmem_host_allocator *allocator, uint64_t bytes, uint64_t align, bool committed,
                    const NxmemByteRange *ranges, uint64_t count, nxmem_host_block *ret_block, nxmem_host_error *error)
{
    struct nxm_block block = { .bytes = bytes, .align = align, .class_ = NXM_CLASS_DEVICE, .device = -1 };
    struct nxm_error found;
    nxmem_host_block out;
    int result;

    if (!nxm_host_is_whole(ret_block, NXM_FIRST_BLOCK))
        return nxm_host_refuse(error, "the block's struct_size is too small: use NXMEM_HOST_SIZED");
    if (lacks(ranges, count))
        return nxm_host_refuse(error, no_ranges);
    result = committed ? nxm_backing_allocate(allocator->core, &block, ranges, count, &found)
                       : nxm_allocator_allocate(allocator->core, &block, NULL, NULL, &found);
    if (result == NXM_OK) {
        out = public_block(&block);
        nxm_host_give(ret_block, &out, sizeof out, NXM_FIRST_BLOCK);
    }
    return nxm_host_answer(result, &found, error);
}

int nxmem_host_allocate(nxmem_host_allocator *allocator, uint64_t bytes, uint64_t align, nxmem_host_block *ret_block,
                        nxmem_host_error *error)
{
    return allocate(allocator, bytes, align, false, NULL, 0, ret_block, error);
}

typedef int release_call(struct nxm_allocator *core, uint64_t address, uint64_t bytes, uint64_t align,
                         struct nxm_release *ret_release, struct nxm_error *ret_error);

static int end_block(release_call *call, nxmem_host_allocator *allocator, const void *address, uint64_t bytes,
                     uint64_t align, nxmem_host_release_result *ret_result, nxmem_host_error *error)
{
    struct nxm_release release = { .outcome = NXM_RELEASE_FAILED };
    nxmem_host_release_result out;
    struct nxm_error found;
    int result = call(allocator->core, number_of(address), bytes, align, &release, &found);

    if (result != NXM_OK)
        release = (struct nxm_release){ .outcome = NXM_RELEASE_FAILED, .status = found.status };
    out = public_release(&release);
    nxm_host_give(ret_result, &out, sizeof out, NXM_FIRST_RELEASE_RESULT);
    return nxm_host_answer(result, &found, error);
}

int nxmem_host_release(nxmem_host_allocator *allocator, void *address, uint64_t bytes, uint64_t align,
                       nxmem_host_release_result *ret_result, nxmem_host_error *error)
{
    return end_block(nxm_allocator_release_shaped, allocator, address, bytes, align, ret_result, error);
}

int nxmem_host_enqueue(nxmem_host_allocator *allocator, void *address, uint64_t bytes, uint64_t align,
                       nxmem_host_release_result *ret_result, nxmem_host_error *error)
{
    return end_block(nxm_allocator_enqueue_shaped, allocator, address, bytes, align, ret_result, error);
}

int nxmem_host_drain(nxmem_host_allocator *allocator, uint64_t budget, uint64_t *ret_retired, nxmem_host_error *error)
{
    struct nxm_error found;
    uint64_t retired;
    int result = nxm_allocator_drain_some(allocator->core, budget, &retired, &found);

    if (ret_retired != NULL)
        *ret_retired = retired;
    return nxm_host_answer(result, &found, error);
}

uint64_t nxmem_host_pending(nxmem_host_allocator *allocator)
{
    return nxm_allocator_pending(allocator->core);
}

/* --- virtual backing ---------------------------------------------------------------------------------------- */

int nxmem_host_allocate_committed(nxmem_host_allocator *allocator, uint64_t bytes, uint64_t align,
                                  const NxmemByteRange *ranges, uint64_t count, nxmem_host_block *ret_block,
                                  nxmem_host_error *error)
{
    return allocate(allocator, bytes, align, true, ranges, count, ret_block, error);
}

int nxmem_host_commit(nxmem_host_allocator *allocator, void *address, uint64_t bytes, uint64_t align,
                      const NxmemByteRange *ranges, uint64_t count, uint64_t *ret_done, nxmem_host_error *error)
{
    struct nxm_shape shape = { bytes, align };
    struct nxm_error found;
    int result = NXM_OK;
    uint64_t done = 0;

    if (ret_done != NULL)
        *ret_done = 0;
    if (lacks(ranges, count))
        return nxm_host_refuse(error, no_ranges);
    while (result == NXM_OK && done < count) {
        result = nxm_backing_commit(allocator->core, number_of(address), &shape, &ranges[done], &found);
        done += result == NXM_OK;
    }
    if (ret_done != NULL)
        *ret_done = done;
    return nxm_host_answer(result, &found, error);
}

int nxmem_host_decommit(nxmem_host_allocator *allocator, void *address, uint64_t bytes, uint64_t align,
                        const NxmemByteRange *range, uint64_t *ret_unmapped, nxmem_host_error *error)
{
    struct nxm_shape shape = { bytes, align };
    struct nxm_error found;
    uint64_t unmapped = 0;
    int result;

    if (lacks(range, 1))
        return nxm_host_refuse(error, no_ranges);
    result = nxm_backing_decommit(allocator->core, number_of(address), &shape, range, &unmapped, &found);
    if (result == NXM_OK && ret_unmapped != NULL)
        *ret_unmapped = unmapped;
    return nxm_host_answer(result, &found, error);
}

uint64_t nxmem_host_committed(nxmem_host_allocator *allocator, void *address, uint64_t bytes, uint64_t align)
{
    struct nxm_shape shape = { bytes, align };

    return nxm_backing_committed(allocator->core, number_of(address), &shape);
}

int nxmem_host_cost(nxmem_host_allocator *allocator, void *address, uint64_t bytes, uint64_t align,
                    const NxmemByteRange *ranges, uint64_t count, uint64_t *ret_mapped, nxmem_host_error *error)
{
    struct nxm_shape shape = { bytes, align };
    struct nxm_error found;
    int result;

    if (ret_mapped == NULL)
        return nxm_host_refuse(error, "a cost needs a place");
    if (lacks(ranges, count))
        return nxm_host_refuse(error, no_ranges);
    if (address == NULL)
        result = nxm_backing_cost_of_block(allocator->core, &shape, ranges, count, ret_mapped, &found);
    else
        result = nxm_backing_cost_of_ranges(allocator->core, number_of(address), &shape, ranges, count, ret_mapped, &found);
    return nxm_host_answer(result, &found, error);
}

/* --- shared prefixes ---------------------------------------------------------------------------------------- */

int nxmem_host_prefix_new(nxmem_host_allocator *allocator, uint64_t bytes, nxmem_host_prefix **ret_prefix,
                          nxmem_host_error *error)
{
    struct nxm_shared *shared = NULL;
    struct nxm_error found;
    int result;

    if (ret_prefix == NULL)
        return nxm_host_refuse(error, "a new prefix needs a place for its handle");
    result = nxm_shared_new(allocator->core, bytes, &shared, &found);
    if (result == NXM_OK)
        *ret_prefix = (nxmem_host_prefix *)shared;
    return nxm_host_answer(result, &found, error);
}

void nxmem_host_prefix_facts_of(const nxmem_host_prefix *prefix, nxmem_host_prefix_facts *ret_facts)
{
    struct nxm_shared_facts facts;
    nxmem_host_prefix_facts out = { 0 };

    nxm_shared_describe(shared_of(prefix), &facts);
    out.bytes = facts.bytes;
    out.device_address = facts.device_address;
    out.committed_bytes = facts.committed_bytes;
    out.mapped_bytes = facts.mapped;
    nxm_host_give(ret_facts, &out, sizeof out, NXM_FIRST_PREFIX_FACTS);
}

int nxmem_host_prefix_cost(nxmem_host_allocator *allocator, const nxmem_host_prefix *prefix, uint64_t *ret_owned,
                           nxmem_host_error *error)
{
    struct nxm_error found;

    if (ret_owned == NULL)
        return nxm_host_refuse(error, "a cost needs a place");
    return nxm_host_answer(nxm_shared_cost(allocator->core, shared_of(prefix), ret_owned, &found), &found, error);
}

int nxmem_host_prefix_commit(nxmem_host_allocator *allocator, const nxmem_host_prefix *prefix, void *address,
                             uint64_t bytes, uint64_t offset, nxmem_host_view *ret_view, nxmem_host_error *error)
{
    struct nxm_shared_commit commit = { 0 };
    struct nxm_error found;
    nxmem_host_view out = { 0 };
    int result =
        nxm_shared_commit(allocator->core, shared_of(prefix), number_of(address), bytes, offset, &commit, &found);

    if (result == NXM_OK) {
        out.owned = commit.owned;
        out.mapped = commit.mapped;
        out.granules = commit.granules;
        nxm_host_give(ret_view, &out, sizeof out, NXM_FIRST_VIEW);
    }
    return nxm_host_answer(result, &found, error);
}

void nxmem_host_prefix_free(nxmem_host_prefix *prefix)
{
    nxm_shared_unref(shared_of(prefix));
}
