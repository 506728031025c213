/* The misbehaving plugin over host memory does exactly what its table says, driven by the raw ABI. */
#include "tests/plugins/mechanism_fixture.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/leaks.h"

enum { BLOCK = 64 * 1024 };

static const uint64_t huge = UINT64_C(1) << 60;

/* --- the control ------------------------------------------------------------------------------------------------------ */

static void without_a_fault_it_is_an_honest_mechanism(void **state)
{
    struct mechanism m;
    NxmemAllocation block;
    uint32_t how;

    (void)state;
    faulty_host_open(&m, "sound");
    block = must_allocate(m.vtable, 1, 100, 256);
    assert_int_equal(release_now(m.vtable, &block, &how), NXMEM_STATUS_OK);
    assert_int_equal(how, NXMEM_RELEASE_COMPLETE);
    for (uint64_t id = 2; id <= 4; id++) {
        block = must_allocate(m.vtable, id, 100, 256);
        assert_int_equal(enqueue(&m, &block, NULL), NXMEM_STATUS_OK);
    }
    assert_int_equal(drained(&m, 2), 2);
    assert_int_equal(drained(&m, UINT64_MAX), 1);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(m.plugin.host.log[i].allocation_id, 2 + i);
    assert_int_equal(faulty_host_ask(&m.plugin, "TerminalReleases"), 1);
    assert_int_equal(faulty_host_ask(&m.plugin, "Drains"), 2);
    mechanism_close(&m);
}

/* Whatever else they do, these drains stop where the host refuses. */
static void a_refused_completion_stops_the_drain(void **state)
{
    static const char *const words[] = {"sound", "completes-huge", "completes-backwards", "pending-lies"};

    (void)state;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        struct mechanism m;
        uint64_t retired = 99;

        faulty_host_open(&m, words[i]);
        for (uint64_t id = 1; id <= 3; id++) {
            NxmemAllocation block = must_allocate(m.vtable, id, 100, 256);

            assert_int_equal(enqueue(&m, &block, NULL), NXMEM_STATUS_OK);
        }
        m.plugin.host.refuse_from = 1;
        assert_int_equal(m.vtable->drain_releases(m.ctx, 9, &retired).code, NXMEM_STATUS_CALLBACK_FAILED);
        assert_int_equal(retired, 1);
        m.plugin.host.refuse_from = 0;
        assert_int_equal(drained(&m, 9), 2);
        mechanism_close(&m);
    }
}

static void every_mechanism_opens_and_closes_or_has_no_state(void **state)
{
    struct plugin plugin;
    void (*let_go)(void);
    void *found;

    (void)state;
    plugin_load(&plugin, FAULTY_HOST, 1);
    found = dlsym(plugin.library, "NxmemFaultyHostLetGo");
    assert_non_null(found);
    memcpy(&let_go, &found, sizeof let_go);
    let_go();
    for (uint64_t i = 0; i < plugin.factory_count; i++) {
        const NxmemAllocatorVtable *vtable;

        assert_int_equal(plugin_open(&plugin, plugin.factories[i], 1, 0, &vtable).code, NXMEM_STATUS_OK);
        if (vtable->struct_size < 48) {
            assert_int_equal(plugin_report(&plugin).live_allocators, 0);
            continue;
        }
        assert_int_equal(plugin_report(&plugin).live_allocators, 1);
        vtable->release(vtable->ctx);
        assert_int_equal(plugin_report(&plugin).live_allocators, 0);
    }
    plugin_unload(&plugin);
}

/* --- vtables ------------------------------------------------------------------------------------------------------------- */

/* The byte behind the struct is the first of a page that is no memory. */
static void assert_ends_with_its_page(const void *start, size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uintptr_t end = (uintptr_t)start + bytes;
    int pipes[2];

    assert_int_equal(end % page, 0);
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(write(pipes[1], (const void *)(end - 1), 1), 1);
    assert_int_equal(write(pipes[1], (const void *)end, 1), -1); /* the kernel cannot read it either */
    close(pipes[0]);
    close(pipes[1]);
}

static void vtables_end_where_they_say(void **state)
{
    static const struct {
        const char *word;
        uint32_t minor, allocator, backing, mapping;
    } rows[] = {
        {"newer-vtables", 7, 160, 104, 96},
        {"page-end-vtables", 1, 128, 72, 64},
        {"page-end-minor-0", 0, 120, 72, 64},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct mechanism m;

        faulty_host_open(&m, rows[i].word);
        assert_int_equal(m.vtable->abi_minor, rows[i].minor);
        assert_int_equal(m.vtable->struct_size, rows[i].allocator);
        assert_int_equal(m.vtable->virtual_backing->struct_size, rows[i].backing);
        assert_int_equal(m.vtable->shared_mapping->struct_size, rows[i].mapping);
        assert_ends_with_its_page(m.vtable, rows[i].allocator);
        assert_ends_with_its_page(m.vtable->virtual_backing, rows[i].backing);
        assert_ends_with_its_page(m.vtable->shared_mapping, rows[i].mapping);
        mechanism_close(&m);
    }
}

static void unreadable_vtables_end_with_their_page_too(void **state)
{
    const NxmemAllocatorVtable *vtable;
    struct plugin plugin;

    (void)state;
    plugin_load(&plugin, FAULTY_HOST, 1);
    assert_int_equal(plugin_open(&plugin, plugin_factory(&plugin, "page-end-short", 0), 1, 0, &vtable).code, 0);
    assert_int_equal(vtable->struct_size, 40);
    assert_ends_with_its_page(vtable, 40);
    assert_int_equal(plugin_open(&plugin, plugin_factory(&plugin, "page-end-stub", 0), 1, 0, &vtable).code, 0);
    assert_int_equal(vtable->struct_size, 4);
    assert_ends_with_its_page(vtable, 8);
    plugin_unload(&plugin);
}

static void spoiled_vtables_are_spoiled_in_one_place(void **state)
{
    struct mechanism m;

    (void)state;
    faulty_host_open(&m, "long-name");
    assert_int_equal(strlen((const char *)m.vtable->name), 9999);
    assert_ends_with_its_page(m.vtable->name, 10000);
    mechanism_close(&m);
    faulty_host_open(&m, "drain-missing");
    assert_null(m.vtable->drain_releases);
    assert_non_null(m.vtable->enqueue_release);
    mechanism_close(&m);
    faulty_host_open(&m, "backing-empty");
    assert_null(m.vtable->virtual_backing->commit_range);
    assert_null(m.vtable->virtual_backing->committed_bytes);
    mechanism_close(&m);
    faulty_host_open(&m, "mapping-empty");
    assert_null(m.vtable->shared_mapping->create_shared_prefix);
    assert_null(m.vtable->shared_mapping->commit_shared_prefix);
    mechanism_close(&m);
}

static void reenters_open_calls_back_before_it_returns(void **state)
{
    struct mechanism m;

    (void)state;
    faulty_host_open(&m, "reenters-open");
    assert_int_equal(m.plugin.host.reclaims, 1);
    assert_int_equal(m.plugin.host.completions, 1);
    assert_int_equal(faulty_host_ask(&m.plugin, "BogusCalls"), 1);
    assert_int_equal(faulty_host_ask(&m.plugin, "BogusAccepted"), 1); /* this host believes anything */
    mechanism_close(&m);
}

/* --- allocating ------------------------------------------------------------------------------------------------------------ */

static void answers_are_wrong_as_planted(void **state)
{
    static const struct {
        const char *word;
        uint32_t struct_size;
        uint64_t owned;
        uint64_t live;
    } rows[] = {{"answer-newer", 64, 100, 1},
                {"answer-unsized", 0, 100, 1},
                {"answer-cut", 8, 100, 0},
                {"owns-too-much", 32, UINT64_C(1) << 60, 1},
                {"wraps-space", 32, 100, 1}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct mechanism m;
        NxmemAllocResult result = {.struct_size = sizeof result};
        NxmemAllocRequest request;
        NxmemAllocation block;
        uint64_t unmapped;

        faulty_host_open(&m, rows[i].word);
        request = request_for(m.vtable, 1, 100, 16);
        assert_int_equal(m.vtable->allocate(m.ctx, &request, &result).code, NXMEM_STATUS_OK);
        assert_int_equal(result.struct_size, rows[i].struct_size);
        assert_int_equal(result.owned_bytes, rows[i].owned);
        assert_int_equal((uintptr_t)result.ptr == (uintptr_t)-16, strcmp(rows[i].word, "wraps-space") == 0);
        assert_report(&m, 1, rows[i].live, 0, 0, 0);
        block = allocation_of(&request, &result);
        if (rows[i].live != 0)
            assert_int_equal(m.vtable->deallocate(m.ctx, &block, &unmapped).code, NXMEM_STATUS_OK);
        mechanism_close(&m);
    }
}

static void reissues_hands_a_quarantined_address_out_again_once(void **state)
{
    struct mechanism m;
    NxmemAllocation first, second;
    uint32_t how;

    (void)state;
    faulty_host_open(&m, "reissues");
    first = must_allocate(m.vtable, 1, 100, 256);
    assert_int_equal(release_now(m.vtable, &first, &how), NXMEM_STATUS_OK);
    assert_int_equal(how, NXMEM_RELEASE_QUARANTINED);
    second = must_allocate(m.vtable, 2, 100, 256);
    assert_ptr_equal(second.ptr, first.ptr);
    assert_int_equal(release_now(m.vtable, &second, &how), NXMEM_STATUS_OK);
    assert_int_equal(how, NXMEM_RELEASE_COMPLETE);
    mechanism_close(&m);
}

static void asks_wrongly_spares_a_host_without_the_path(void **state)
{
    struct mechanism m;
    NxmemAllocation block;
    uint64_t unmapped;

    (void)state;
    plugin_load(&m.plugin, FAULTY_HOST, 1);
    m.plugin.host.callbacks.request_reclaim = NULL; /* a host without the path is not asked */
    assert_int_equal(plugin_open(&m.plugin, plugin_factory(&m.plugin, "asks-wrongly", 0), 1, 0, &m.vtable).code, 0);
    m.ctx = m.vtable->ctx;
    block = must_allocate(m.vtable, 1, 100, 256);
    assert_int_equal(faulty_host_ask(&m.plugin, "BogusCalls"), 0);
    assert_int_equal(m.vtable->deallocate(m.ctx, &block, &unmapped).code, NXMEM_STATUS_OK);
    mechanism_close(&m);
}

/* --- releasing --------------------------------------------------------------------------------------------------------------- */

static void outcomes_are_wrong_as_planted(void **state)
{
    static const struct {
        const char *word;
        uint32_t code, struct_size;
        uint64_t unmapped;
    } rows[] = {{"outcome-newer", NXMEM_STATUS_OK, 512, 100},
                {"outcome-unsized", NXMEM_STATUS_OK, 0, 100},
                {"outcome-cut", NXMEM_STATUS_OK, 4, 0},
                {"release-unknown-status", 77, sizeof(NxmemReleaseOutcome), 0}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        NxmemReleaseOutcome outcome = {.struct_size = sizeof outcome};
        struct mechanism m;
        NxmemAllocation block;

        faulty_host_open(&m, rows[i].word);
        block = must_allocate(m.vtable, 1, 100, 256);
        assert_int_equal(m.vtable->release_allocation(m.ctx, &block, &outcome).code, rows[i].code);
        assert_int_equal(outcome.struct_size, rows[i].struct_size);
        assert_int_equal(outcome.unmapped_bytes, rows[i].unmapped);
        assert_report(&m, 1, 0, 0, 0, 0);
        mechanism_close(&m);
    }
}

static void deallocate_overclaims(void **state)
{
    struct mechanism m;
    NxmemAllocation block;
    uint64_t unmapped = 0;

    (void)state;
    faulty_host_open(&m, "deallocate-overclaims");
    block = must_allocate(m.vtable, 1, 100, 256);
    assert_int_equal(m.vtable->deallocate(m.ctx, &block, &unmapped).code, NXMEM_STATUS_OK);
    assert_int_equal(unmapped, huge);
    mechanism_close(&m);
}

/* --- queued releases ------------------------------------------------------------------------------------------------------------- */

static void queue_three(struct mechanism *m, const char *word)
{
    faulty_host_open(m, word);
    for (uint64_t id = 1; id <= 3; id++) {
        NxmemAllocation block = must_allocate(m->vtable, id, 100, 256);

        assert_int_equal(enqueue(m, &block, NULL), NXMEM_STATUS_OK);
    }
}

/* completes-short and completes-null would be the end of this host, which reads without care: tests/unit has them. */
static void completions_are_wrong_as_planted(void **state)
{
    static const struct {
        const char *word;
        unsigned calls, bogus; /* of release_completed; of these, such as must be refused */
    } rows[] = {{"completes-huge", 3, 0},          {"completes-quarantined", 3, 0},
                {"completes-wrong-ticket", 6, 3},  {"completes-first-for-all", 5, 2}, {"completes-backwards", 3, 0},
                {"completes-at-once", 24, 21},     {"pending-lies", 3, 0}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct mechanism m;

        queue_three(&m, rows[i].word);
        assert_int_equal(queued(&m), strcmp(rows[i].word, "pending-lies") == 0 ? 0 : 3);
        assert_int_equal(drained(&m, UINT64_MAX), 3);
        assert_int_equal(m.plugin.host.completions, rows[i].calls);
        assert_int_equal(faulty_host_ask(&m.plugin, "BogusCalls"), rows[i].bogus);
        mechanism_close(&m);
    }
}

static void completions_differ_in_what_they_say(void **state)
{
    struct mechanism m;
    const NxmemReleaseCompletion *log;

    (void)state;
    leaks_begin();
    queue_three(&m, "completes-huge");
    leaks_end();
    log = m.plugin.host.log;
    drained(&m, 1);
    assert_int_equal(log[0].outcome.unmapped_bytes, huge);
    assert_int_equal(log[0].outcome.allocation_bytes, 2 * huge);
    mechanism_release(&m);
    plugin_unload(&m.plugin); /* two are queued for good */
    queue_three(&m, "completes-quarantined");
    drained(&m, UINT64_MAX);
    assert_int_equal(log[0].outcome.state, NXMEM_RELEASE_QUARANTINED);
    assert_int_equal(log[0].outcome.residual_owned_bytes, 50);
    mechanism_close(&m);
    queue_three(&m, "completes-wrong-ticket");
    drained(&m, UINT64_MAX);
    assert_int_equal(log[0].ticket, log[1].ticket + 1000);
    assert_int_equal(log[0].allocation_id, log[1].allocation_id);
    mechanism_close(&m);
    queue_three(&m, "completes-first-for-all");
    drained(&m, UINT64_MAX);
    assert_int_equal(log[1].allocation_id, 1); /* instead of 2, which follows */
    assert_int_equal(log[2].allocation_id, 2);
    mechanism_close(&m);
    queue_three(&m, "completes-backwards");
    drained(&m, UINT64_MAX);
    assert_int_equal(log[0].allocation_id, 3);
    assert_int_equal(log[2].allocation_id, 1);
    mechanism_close(&m);
}

static void slow_threads_count_until_they_are_joined(void **state)
{
    struct mechanism m;

    (void)state;
    queue_three(&m, "completes-slowly");
    assert_int_equal(drained(&m, UINT64_MAX), 3);
    assert_report(&m, 1, 0, 0, 0, 0); /* asking joins them */
    assert_int_equal(m.plugin.host.completions, 3);
    mechanism_close(&m);
}

static void drains_that_retire_nothing(void **state)
{
    struct mechanism m;
    uint64_t retired = 99;

    (void)state;
    leaks_begin();
    queue_three(&m, "drain-lies");
    leaks_end();
    assert_int_equal(drained(&m, UINT64_MAX), 5);
    assert_int_equal(queued(&m), 3);
    mechanism_release(&m);
    plugin_unload(&m.plugin);
    leaks_begin();
    queue_three(&m, "drain-fails");
    leaks_end();
    assert_int_equal(m.vtable->drain_releases(m.ctx, 9, &retired).code, NXMEM_STATUS_INTERNAL_ERROR);
    assert_int_equal(retired, 0);
    assert_int_equal(queued(&m), 3);
    mechanism_release(&m);
    plugin_unload(&m.plugin);
}

/* --- ranges and prefixes ------------------------------------------------------------------------------------------------------ */

static void spans_unchecked_accepts_what_wraps(void **state)
{
    struct mechanism m;
    NxmemAllocation block;
    NxmemRangeRequest request;
    uint64_t number = 99, unmapped;

    (void)state;
    faulty_host_open(&m, "spans-unchecked");
    block = must_allocate(m.vtable, 1, BLOCK, 4096);
    request = range_of(&block, UINT64_MAX - 1, 4096);
    assert_int_equal(m.vtable->virtual_backing->commit_range(m.vtable->virtual_backing->ctx, &request).code, 0);
    assert_int_equal(m.vtable->virtual_backing->decommit_range(m.vtable->virtual_backing->ctx, &request, &number).code, 0);
    assert_int_equal(number, 4096);
    assert_int_equal(faulty_host_ask(&m.plugin, "BackingCalls"), 2);
    assert_int_equal(m.vtable->deallocate(m.ctx, &block, &unmapped).code, 0);
    mechanism_close(&m);
}

static void ranges_say_too_little_or_too_much(void **state)
{
    struct mechanism m;
    NxmemAllocation block;
    const NxmemVirtualBackingVtable *backing;
    NxmemRangeRequest request;
    uint64_t number = 99, unmapped;

    (void)state;
    faulty_host_open(&m, "estimates-low");
    backing = m.vtable->virtual_backing;
    block = must_allocate(m.vtable, 1, BLOCK, 4096);
    request = range_of(&block, 0, 4096);
    assert_int_equal(backing->mapped_bytes_for_ranges(backing->ctx, &request, 1, &number).code, 0);
    assert_int_equal(number, 0);
    assert_int_equal(m.vtable->deallocate(m.ctx, &block, &unmapped).code, 0);
    mechanism_close(&m);
    faulty_host_open(&m, "decommit-overclaims");
    backing = m.vtable->virtual_backing;
    block = must_allocate(m.vtable, 1, BLOCK, 4096);
    request = range_of(&block, 0, 4096);
    assert_int_equal(backing->decommit_range(backing->ctx, &request, &number).code, 0);
    assert_int_equal(number, huge);
    assert_int_equal(m.vtable->deallocate(m.ctx, &block, &unmapped).code, 0);
    mechanism_close(&m);
}

static void prefixes_are_wrong_as_planted(void **state)
{
    static const char *const words[] = {"prefix-zero", "prefix-foreign", "prefix-elsewhere"};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        NxmemSharedPrefixHandle handle = {.struct_size = sizeof handle};
        const NxmemSharedMappingVtable *mapping;
        struct mechanism m;

        faulty_host_open(&m, words[i]);
        mapping = m.vtable->shared_mapping;
        assert_int_equal(mapping->create_shared_prefix(mapping->ctx, m.vtable->mechanism_id, 4096, &handle).code, 0);
        assert_int_equal(handle.handle != 0, i != 0);
        assert_int_equal(handle.mechanism_id == m.vtable->mechanism_id, i != 1);
        assert_int_equal(handle.device.index, i == 2);
        assert_report(&m, 1, 0, 0, i != 0, 0);
        assert_int_equal(mapping->release_shared_prefix(mapping->ctx, &handle).code,
                         i == 0 ? NXMEM_STATUS_UNKNOWN_ALLOCATION : NXMEM_STATUS_OK);
        assert_int_equal(faulty_host_ask(&m.plugin, "PrefixReleases"), 1);
        mechanism_close(&m);
    }
}

static void a_commit_overclaims(void **state)
{
    NxmemSharedPrefixCommitRequest request = {.struct_size = sizeof request};
    NxmemSharedPrefixCommitInfo info = {.struct_size = sizeof info};
    const NxmemSharedMappingVtable *mapping;
    struct mechanism m;
    uint64_t unmapped;

    (void)state;
    faulty_host_open(&m, "commit-overclaims");
    mapping = m.vtable->shared_mapping;
    request.prefix.struct_size = sizeof request.prefix;
    assert_int_equal(mapping->create_shared_prefix(mapping->ctx, m.vtable->mechanism_id, 4096, &request.prefix).code, 0);
    request.allocation = must_allocate(m.vtable, 1, BLOCK, 4096);
    assert_int_equal(mapping->commit_shared_prefix(mapping->ctx, &request, &info).code, 0);
    assert_int_equal(info.additional_owned_bytes, huge);
    assert_int_equal(info.newly_mapped_bytes, huge);
    assert_int_equal(mapping->release_shared_prefix(mapping->ctx, &request.prefix).code, 0);
    assert_int_equal(m.vtable->deallocate(m.ctx, &request.allocation, &unmapped).code, 0);
    mechanism_close(&m);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_fault_it_is_an_honest_mechanism),
        cmocka_unit_test(a_refused_completion_stops_the_drain),
        cmocka_unit_test(every_mechanism_opens_and_closes_or_has_no_state),
        cmocka_unit_test(vtables_end_where_they_say),
        cmocka_unit_test(unreadable_vtables_end_with_their_page_too),
        cmocka_unit_test(spoiled_vtables_are_spoiled_in_one_place),
        cmocka_unit_test(reenters_open_calls_back_before_it_returns),
        cmocka_unit_test(answers_are_wrong_as_planted),
        cmocka_unit_test(reissues_hands_a_quarantined_address_out_again_once),
        cmocka_unit_test(asks_wrongly_spares_a_host_without_the_path),
        cmocka_unit_test(outcomes_are_wrong_as_planted),
        cmocka_unit_test(deallocate_overclaims),
        cmocka_unit_test(completions_are_wrong_as_planted),
        cmocka_unit_test(completions_differ_in_what_they_say),
        cmocka_unit_test(slow_threads_count_until_they_are_joined),
        cmocka_unit_test(drains_that_retire_nothing),
        cmocka_unit_test(spans_unchecked_accepts_what_wraps),
        cmocka_unit_test(ranges_say_too_little_or_too_much),
        cmocka_unit_test(prefixes_are_wrong_as_planted),
        cmocka_unit_test(a_commit_overclaims),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
