#include "host.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "fake.h"

struct host host;
struct host_told host_told;

static int setup(const NxmemVersionRange *range)
{
    struct nxm_error error;

    memset(&host, 0, sizeof host);
    fake_reset();
    if (nxm_module_load(UNIT_DIR "/plugins/fake.so", range, &host.module, &error) != NXM_OK) {
        print_error("%s\n", error.text);
        return -1;
    }
    if (nxm_blocks_new(&host.blocks) != NXM_OK)
        return -1;
    host.options.blocks = host.blocks;
    return 0;
}

int host_setup(void **state)
{
    (void)state;
    return setup(NULL);
}

int host_setup_minor_0(void **state)
{
    NxmemVersionRange range = { 1, 1, 0, 0 };

    (void)state;
    return setup(&range);
}

static void note(void *owner, const struct nxm_block *block, const struct nxm_release *release)
{
    struct host_told *told = owner;

    if (told->calls < HOST_TOLD_MAX)
        told->ids[told->calls] = block->id;
    told->calls++;
    told->block = *block;
    told->release = *release;
    told->tallies = host_tallies();
}

int host_setup_deferred(void **state)
{
    int result = host_setup(state);

    memset(&host_told, 0, sizeof host_told);
    fake.extra_flags = NXMEM_CAPABILITY_DEFERRED_RELEASE;
    host.options.owner = &host_told;
    host.options.completed = note;
    if (result == 0)
        host_open();
    return result;
}

int host_setup_mapping(void **state)
{
    int result = host_setup(state);

    memset(&host_told, 0, sizeof host_told);
    fake.maps = true;
    fake.extra_flags = NXMEM_CAPABILITY_KNOWN_MASK;
    host.options.owner = &host_told;
    host.options.completed = note;
    if (result == 0)
        host_open();
    return result;
}

int host_teardown(void **state)
{
    struct nxm_gate gate = { 0 };

    (void)state;
    host_close();
    assert_int_equal(fake.releases, fake.opens);
    assert_int_equal(nxm_module_unload(host.module, &gate), NXM_OK);
    assert_int_equal(fake.unmapped, 1);
    nxm_blocks_free(host.blocks);
    fake_reset();
    return 0;
}

int host_try_open(struct nxm_error *ret_error)
{
    return nxm_allocator_open(host.module, 0, &host.options, &host.allocator, ret_error);
}

void host_open(void)
{
    struct nxm_error error;

    if (host_try_open(&error) != NXM_OK)
        fail_msg("%s", error.text);
}

void host_close(void)
{
    nxm_allocator_unref(host.allocator);
    host.allocator = NULL;
}

struct nxm_block host_allocate(uint64_t bytes)
{
    struct nxm_block block = { .bytes = bytes, .align = 256, .class_ = NXM_CLASS_DEVICE, .device = 0 };
    struct nxm_error error;

    if (nxm_allocator_allocate(host.allocator, &block, NULL, NULL, &error) != NXM_OK)
        fail_msg("%s", error.text);
    return block;
}

int host_release(const struct nxm_block *block, struct nxm_release *ret_release)
{
    return nxm_allocator_release(host.allocator, block->address, block->id, NXM_BLOCK_LIVE, ret_release, NULL);
}

int host_enqueue(const struct nxm_block *block, struct nxm_release *ret_release)
{
    return nxm_allocator_enqueue(host.allocator, block->address, block->id, NXM_BLOCK_LIVE, NULL, NULL, ret_release,
                                 NULL);
}

struct nxm_release host_enqueued(const struct nxm_block *block)
{
    struct nxm_release release;

    assert_int_equal(host_enqueue(block, &release), NXM_OK);
    return release;
}

unsigned host_state(uint64_t address)
{
    struct nxm_block block;

    return nxm_blocks_find(host.blocks, address, &block) == NXM_OK ? block.state : 0;
}

struct nxm_tallies host_tallies(void)
{
    struct nxm_gate gate;

    nxm_module_query_gate(host.module, &gate);
    return gate.host;
}

struct nxm_allocator_totals host_totals(void)
{
    struct nxm_allocator_totals totals;

    nxm_allocator_totals(host.allocator, &totals);
    return totals;
}

void host_assert_counts(uint64_t allocations, uint64_t queued)
{
    assert_int_equal(host_tallies().allocations, allocations);
    assert_int_equal(host_tallies().queued, queued);
    assert_int_equal(host_totals().queued, queued);
}
