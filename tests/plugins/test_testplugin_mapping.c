/* The shared prefixes of `lazy`: who holds one, who sees one, and when its memory goes. */
#include "tests/plugins/mechanism_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { PREFIX = 16 * 1024, BLOCK = 64 * 1024 };

static const NxmemSharedMappingVtable *mapping_of(const struct mechanism *m)
{
    return m->vtable->shared_mapping;
}

static NxmemSharedPrefixHandle must_create(const struct mechanism *m, uint64_t bytes)
{
    NxmemSharedPrefixHandle handle = {.struct_size = sizeof handle};

    assert_int_equal(
        mapping_of(m)->create_shared_prefix(mapping_of(m)->ctx, m->vtable->mechanism_id, bytes, &handle).code, 0);
    return handle;
}

static uint32_t retain(const struct mechanism *m, const NxmemSharedPrefixHandle *handle)
{
    return mapping_of(m)->retain_shared_prefix(mapping_of(m)->ctx, handle).code;
}

static uint32_t give_back(const struct mechanism *m, const NxmemSharedPrefixHandle *handle)
{
    return mapping_of(m)->release_shared_prefix(mapping_of(m)->ctx, handle).code;
}

static uint32_t cost(const struct mechanism *m, const NxmemSharedPrefixHandle *handle, uint64_t *ret_bytes)
{
    *ret_bytes = 99;
    return mapping_of(m)->incremental_owned_bytes(mapping_of(m)->ctx, handle, ret_bytes).code;
}

static uint32_t map(const struct mechanism *m, const NxmemSharedPrefixHandle *handle, const NxmemAllocation *block,
                    uint64_t offset, NxmemSharedPrefixCommitInfo *ret_info)
{
    NxmemSharedPrefixCommitRequest request = {.struct_size = sizeof request,
                                              .prefix = *handle,
                                              .allocation = *block,
                                              .byte_offset = offset};
    NxmemSharedPrefixCommitInfo info = {.struct_size = sizeof info};
    uint32_t code = mapping_of(m)->commit_shared_prefix(mapping_of(m)->ctx, &request, &info).code;

    if (ret_info != NULL)
        *ret_info = info;
    return code;
}

static uint64_t freed(const struct mechanism *m)
{
    return testplugin_ask(&m->plugin, "PrefixBackingFrees");
}

static void open_with_prefix(struct mechanism *ret_m, NxmemSharedPrefixHandle *ret_handle, NxmemAllocation *ret_block)
{
    mechanism_open(ret_m, "lazy", 1);
    *ret_handle = must_create(ret_m, PREFIX);
    *ret_block = must_allocate(ret_m->vtable, 1, BLOCK, 4096);
}

static void close_with_prefix(struct mechanism *m, const NxmemSharedPrefixHandle *handle, const NxmemAllocation *block)
{
    assert_int_equal(give_back(m, handle), NXMEM_STATUS_OK);
    assert_int_equal(release_now(m->vtable, block, NULL), NXMEM_STATUS_OK);
    mechanism_close(m);
}

static void a_prefix_is_charged_at_creation_and_only_there(void **state)
{
    struct mechanism m;
    NxmemSharedPrefixHandle handle;
    NxmemSharedPrefixCommitInfo info;
    NxmemAllocation block;
    uint64_t owned;

    (void)state;
    mechanism_open(&m, "lazy", 1);
    handle = must_create(&m, PREFIX - 100);
    assert_int_equal(handle.struct_size, sizeof handle);
    assert_int_equal(handle.mechanism_id, m.vtable->mechanism_id);
    assert_int_equal(handle.handle, 1);
    assert_int_equal(handle.device.tier, NXMEM_TIER_HOST);
    assert_int_equal(handle.device_ptr % 64, 0);
    assert_int_equal(handle.committed_physical_bytes, PREFIX);
    assert_int_equal(handle.mapped_bytes, PREFIX);
    assert_int_equal(handle.requested_bytes, PREFIX - 100);
    memset((void *)(uintptr_t)handle.device_ptr, 0x5A, PREFIX);
    assert_int_equal(cost(&m, &handle, &owned), NXMEM_STATUS_OK);
    assert_int_equal(owned, 0);
    block = must_allocate(m.vtable, 1, BLOCK, 4096);
    assert_int_equal(map(&m, &handle, &block, 4096, &info), NXMEM_STATUS_OK);
    assert_int_equal(info.struct_size, sizeof info);
    assert_int_equal(info.additional_owned_bytes, 0);
    assert_int_equal(info.newly_mapped_bytes, PREFIX);
    assert_int_equal(info.granules, 4);
    close_with_prefix(&m, &handle, &block);
}

static void handles_are_counted_and_no_views(void **state)
{
    struct mechanism m;
    NxmemSharedPrefixHandle first, second;

    (void)state;
    mechanism_open(&m, "lazy", 1);
    first = must_create(&m, PREFIX);
    assert_report(&m, 1, 0, 0, 1, 0);
    assert_int_equal(retain(&m, &first), NXMEM_STATUS_OK);
    second = must_create(&m, PREFIX);
    assert_int_equal(second.handle, first.handle + 1);
    assert_report(&m, 1, 0, 0, 3, 0);
    assert_int_equal(give_back(&m, &first), NXMEM_STATUS_OK);
    assert_int_equal(give_back(&m, &second), NXMEM_STATUS_OK);
    assert_report(&m, 1, 0, 0, 1, 0);
    assert_int_equal(freed(&m), 1);
    assert_int_equal(give_back(&m, &first), NXMEM_STATUS_OK);
    assert_int_equal(freed(&m), 2);
    mechanism_close(&m);
}

static void the_memory_goes_when_handles_and_views_are_gone_in_either_order(void **state)
{
    (void)state;
    for (int handle_first = 0; handle_first <= 1; handle_first++) {
        struct mechanism m;
        NxmemSharedPrefixHandle handle;
        NxmemAllocation block;

        open_with_prefix(&m, &handle, &block);
        assert_int_equal(map(&m, &handle, &block, 0, NULL), NXMEM_STATUS_OK);
        assert_int_equal(map(&m, &handle, &block, PREFIX, NULL), NXMEM_STATUS_OK);
        assert_report(&m, 1, 1, 2, 1, 0);
        if (handle_first) {
            assert_int_equal(give_back(&m, &handle), NXMEM_STATUS_OK);
            assert_report(&m, 1, 1, 2, 0, 0);
            assert_int_equal(freed(&m), 0);
            memset((void *)(uintptr_t)handle.device_ptr, 1, PREFIX); /* still there: a view holds it */
            assert_int_equal(release_now(m.vtable, &block, NULL), NXMEM_STATUS_OK);
        } else {
            assert_int_equal(release_now(m.vtable, &block, NULL), NXMEM_STATUS_OK);
            assert_report(&m, 1, 0, 0, 1, 0);
            assert_int_equal(freed(&m), 0);
            assert_int_equal(give_back(&m, &handle), NXMEM_STATUS_OK);
        }
        assert_int_equal(freed(&m), 1);
        mechanism_close(&m);
    }
}

static void a_prefix_without_handles_is_unknown_though_its_views_live(void **state)
{
    struct mechanism m;
    NxmemSharedPrefixHandle handle;
    NxmemAllocation block;
    uint64_t owned, unmapped;

    (void)state;
    open_with_prefix(&m, &handle, &block);
    assert_int_equal(map(&m, &handle, &block, 0, NULL), NXMEM_STATUS_OK);
    assert_int_equal(give_back(&m, &handle), NXMEM_STATUS_OK);
    assert_int_equal(retain(&m, &handle), NXMEM_STATUS_UNKNOWN_ALLOCATION);
    assert_int_equal(give_back(&m, &handle), NXMEM_STATUS_UNKNOWN_ALLOCATION);
    assert_int_equal(cost(&m, &handle, &owned), NXMEM_STATUS_UNKNOWN_ALLOCATION);
    assert_int_equal(map(&m, &handle, &block, PREFIX, NULL), NXMEM_STATUS_UNKNOWN_ALLOCATION);
    assert_report(&m, 1, 1, 1, 0, 0);
    assert_int_equal(m.vtable->deallocate(m.ctx, &block, &unmapped).code, NXMEM_STATUS_OK); /* the other slot does it too */
    assert_int_equal(freed(&m), 1);
    mechanism_close(&m);
}

static void views_retire_when_the_release_is_queued(void **state)
{
    struct mechanism m;
    NxmemSharedPrefixHandle handle;
    NxmemAllocation block;

    (void)state;
    open_with_prefix(&m, &handle, &block);
    assert_int_equal(map(&m, &handle, &block, 0, NULL), NXMEM_STATUS_OK);
    assert_int_equal(give_back(&m, &handle), NXMEM_STATUS_OK);
    assert_int_equal(enqueue(&m, &block, NULL), NXMEM_STATUS_OK);
    assert_report(&m, 1, 1, 0, 0, 1);
    assert_int_equal(freed(&m), 1);
    assert_int_equal(drained(&m, 1), 1);
    assert_int_equal(freed(&m), 1);
    mechanism_close(&m);
}

static void a_prefix_must_lie_within_its_block(void **state)
{
    static const uint64_t offsets[] = {BLOCK - PREFIX + 1, BLOCK, BLOCK + 1, UINT64_MAX, UINT64_MAX - PREFIX + 1};
    struct mechanism m;
    NxmemSharedPrefixHandle handle;
    NxmemAllocation block;

    (void)state;
    open_with_prefix(&m, &handle, &block);
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++)
        assert_int_equal(map(&m, &handle, &block, offsets[i], NULL), NXMEM_STATUS_INVALID_ARGUMENT);
    assert_report(&m, 1, 1, 0, 1, 0);
    assert_int_equal(map(&m, &handle, &block, BLOCK - PREFIX, NULL), NXMEM_STATUS_OK);
    close_with_prefix(&m, &handle, &block);
}

static void every_slot_checks_mechanism_then_device_then_handle(void **state)
{
    static const uint32_t codes[] = {NXMEM_STATUS_WRONG_MECHANISM, NXMEM_STATUS_WRONG_DEVICE,
                                     NXMEM_STATUS_UNKNOWN_ALLOCATION};
    struct mechanism m;
    NxmemSharedPrefixHandle handle;
    NxmemAllocation block;

    (void)state;
    open_with_prefix(&m, &handle, &block);
    for (unsigned wrong = 0; wrong < 3; wrong++) {
        NxmemSharedPrefixHandle bad = handle;
        uint64_t owned;

        bad.mechanism_id += wrong == 0;
        bad.device.index += wrong <= 1;
        bad.handle += 1;
        assert_int_equal(retain(&m, &bad), codes[wrong]);
        assert_int_equal(give_back(&m, &bad), codes[wrong]);
        assert_int_equal(cost(&m, &bad, &owned), codes[wrong]);
        assert_int_equal(owned, 0);
        assert_int_equal(map(&m, &bad, &block, 0, NULL), codes[wrong]);
    }
    assert_report(&m, 1, 1, 0, 1, 0);
    close_with_prefix(&m, &handle, &block);
}

static void a_commit_checks_where_it_goes(void **state)
{
    static const uint32_t codes[] = {NXMEM_STATUS_WRONG_MECHANISM, NXMEM_STATUS_WRONG_DEVICE,
                                     NXMEM_STATUS_UNKNOWN_ALLOCATION, NXMEM_STATUS_INVALID_ARGUMENT};
    struct mechanism m;
    NxmemSharedPrefixHandle handle;
    NxmemAllocation block;

    (void)state;
    open_with_prefix(&m, &handle, &block);
    for (unsigned wrong = 0; wrong < 4; wrong++) {
        NxmemAllocation bad = block;

        bad.mechanism_id += wrong == 0;
        bad.device.index += wrong <= 1;
        bad.allocation_id += wrong <= 2;
        bad.bytes += wrong == 3;
        assert_int_equal(map(&m, &handle, &bad, 0, NULL), codes[wrong]);
    }
    assert_report(&m, 1, 1, 0, 1, 0);
    close_with_prefix(&m, &handle, &block);
}

static void creations_that_cannot_be_are_refused_unwritten(void **state)
{
    NxmemSharedPrefixHandle handle = {.struct_size = sizeof handle}, *exact;
    const NxmemSharedMappingVtable *mapping;
    struct mechanism m;
    uint64_t own;

    (void)state;
    mechanism_open(&m, "lazy", 1);
    mapping = mapping_of(&m);
    own = m.vtable->mechanism_id;
    assert_int_equal(mapping->create_shared_prefix(mapping->ctx, own + 1, 0, &handle).code, NXMEM_STATUS_WRONG_MECHANISM);
    assert_int_equal(mapping->create_shared_prefix(mapping->ctx, own, 0, &handle).code, NXMEM_STATUS_INVALID_ARGUMENT);
    assert_int_equal(mapping->create_shared_prefix(mapping->ctx, own, 1, NULL).code, NXMEM_STATUS_INVALID_ARGUMENT);
    assert_int_equal(mapping->create_shared_prefix(mapping->ctx, own, UINT64_MAX, &handle).code,
                     NXMEM_STATUS_OUT_OF_MEMORY);
    assert_int_equal(mapping->create_shared_prefix(mapping->ctx, own, UINT64_MAX - 4096, &handle).code,
                     NXMEM_STATUS_OUT_OF_MEMORY);
    assert_int_equal(handle.handle, 0);
    exact = exact_prefix(&handle, sizeof handle - 8);
    assert_int_equal(mapping->create_shared_prefix(mapping->ctx, own, 1, exact).code, NXMEM_STATUS_SHORT_STRUCT);
    free(exact);
    assert_report(&m, 1, 0, 0, 0, 0);
    mechanism_close(&m);
}

static void a_prefix_of_another_opening_is_not_ours(void **state)
{
    struct mechanism m, other;
    NxmemSharedPrefixHandle handle;
    NxmemAllocation block;
    uint64_t owned;

    (void)state;
    mechanism_open(&m, "lazy", 1);
    other = m;
    assert_int_equal(plugin_open(&m.plugin, plugin_factory(&m.plugin, "lazy", 0), 1, 0, &other.vtable).code, 0);
    other.ctx = other.vtable->ctx;
    handle = must_create(&other, PREFIX);
    block = must_allocate(m.vtable, 1, BLOCK, 4096);
    assert_int_equal(cost(&m, &handle, &owned), NXMEM_STATUS_WRONG_MECHANISM);
    assert_int_equal(map(&m, &handle, &block, 0, NULL), NXMEM_STATUS_WRONG_MECHANISM);
    assert_int_equal(give_back(&other, &handle), NXMEM_STATUS_OK);
    assert_int_equal(release_now(m.vtable, &block, NULL), NXMEM_STATUS_OK);
    other.vtable->release(other.ctx);
    mechanism_close(&m);
}

static void a_handle_outlives_the_allocator(void **state)
{
    struct mechanism m;
    const NxmemSharedMappingVtable *mapping;
    NxmemSharedPrefixHandle handle;

    (void)state;
    mechanism_open(&m, "lazy", 1);
    mapping = mapping_of(&m);
    handle = must_create(&m, PREFIX);
    mechanism_release(&m);
    assert_report(&m, 1, 0, 0, 1, 0); /* the handle keeps the state, and the gate shut */
    assert_int_equal(mapping->release_shared_prefix(mapping->ctx, &handle).code, NXMEM_STATUS_OK);
    assert_int_equal(freed(&m), 1);
    mechanism_close(&m);
}

/* Eight threads map, unmap and share one prefix; the books come out even. */
enum { THREADS = 8, ROUNDS = 200 };

struct sharer {
    struct mechanism *m;
    NxmemSharedPrefixHandle handle;
    uint64_t first_id;
    unsigned failures;
};

static void *share(void *argument)
{
    struct sharer *sharer = argument;
    const struct mechanism *m = sharer->m;

    for (unsigned i = 0; i < ROUNDS; i++) {
        NxmemAllocRequest request = request_for(m->vtable, sharer->first_id + i, BLOCK, 4096);
        NxmemAllocResult result = {.struct_size = sizeof result};
        NxmemAllocation block;
        uint64_t retired;

        sharer->failures += retain(m, &sharer->handle) != 0;
        sharer->failures += m->vtable->allocate(m->ctx, &request, &result).code != 0;
        block = allocation_of(&request, &result);
        sharer->failures += map(m, &sharer->handle, &block, 0, NULL) != 0;
        if (i % 2 == 0)
            sharer->failures += release_now(m->vtable, &block, NULL) != 0;
        else
            sharer->failures += enqueue(m, &block, NULL) != 0;
        m->vtable->drain_releases(m->ctx, 2, &retired);
        sharer->failures += give_back(m, &sharer->handle) != 0;
    }
    return NULL;
}

static void threads_may_share_a_prefix(void **state)
{
    struct sharer sharers[THREADS];
    pthread_t threads[THREADS];
    struct mechanism m;
    NxmemSharedPrefixHandle handle;

    (void)state;
    mechanism_open(&m, "lazy", 1);
    handle = must_create(&m, PREFIX);
    for (unsigned i = 0; i < THREADS; i++) {
        sharers[i] = (struct sharer){&m, handle, 1 + i * ROUNDS, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, share, &sharers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(sharers[i].failures, 0);
    }
    drained(&m, UINT64_MAX);
    assert_int_equal(m.plugin.host.completions, THREADS * ROUNDS / 2);
    assert_report(&m, 1, 0, 0, 1, 0);
    assert_int_equal(freed(&m), 0);
    assert_int_equal(give_back(&m, &handle), NXMEM_STATUS_OK);
    assert_int_equal(freed(&m), 1);
    mechanism_close(&m);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prefix_is_charged_at_creation_and_only_there),
        cmocka_unit_test(handles_are_counted_and_no_views),
        cmocka_unit_test(the_memory_goes_when_handles_and_views_are_gone_in_either_order),
        cmocka_unit_test(a_prefix_without_handles_is_unknown_though_its_views_live),
        cmocka_unit_test(views_retire_when_the_release_is_queued),
        cmocka_unit_test(a_prefix_must_lie_within_its_block),
        cmocka_unit_test(every_slot_checks_mechanism_then_device_then_handle),
        cmocka_unit_test(a_commit_checks_where_it_goes),
        cmocka_unit_test(creations_that_cannot_be_are_refused_unwritten),
        cmocka_unit_test(a_prefix_of_another_opening_is_not_ours),
        cmocka_unit_test(a_handle_outlives_the_allocator),
        cmocka_unit_test(threads_may_share_a_prefix),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
