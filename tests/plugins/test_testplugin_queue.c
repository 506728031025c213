/* The queued releases of the test plugin: in order, in part, inside the call, not at all, and after everybody has gone. */
#include "tests/plugins/mechanism_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/leaks.h"

static NxmemAllocation must_enqueue(const struct mechanism *m, uint64_t id, uint64_t bytes)
{
    NxmemAllocation block = must_allocate(m->vtable, id, bytes, 256);

    assert_int_equal(enqueue(m, &block, NULL), NXMEM_STATUS_OK);
    return block;
}

static void releases_retire_in_their_order_and_keep_their_sizes(void **state)
{
    static const char *const names[] = {"lazy", "legacy-1-0"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct mechanism m;

        mechanism_open(&m, names[i], 1);
        for (uint64_t id = 1; id <= 4; id++) {
            NxmemAllocation block = must_allocate(m.vtable, id, id * 1000, 256);
            uint64_t ticket;

            assert_int_equal(enqueue(&m, &block, &ticket), NXMEM_STATUS_OK);
            assert_int_equal(ticket, id);
        }
        assert_report(&m, 1, 4, 0, 0, 4);
        assert_int_equal(queued(&m), 4);
        assert_int_equal(drained(&m, 0), 0);
        assert_int_equal(drained(&m, 2), 2);
        assert_int_equal(queued(&m), 2);
        assert_report(&m, 1, 2, 0, 0, 2);
        assert_int_equal(drained(&m, UINT64_MAX), 2);
        assert_int_equal(m.plugin.host.completions, 4);
        for (uint64_t id = 1; id <= 4; id++) {
            const NxmemReleaseCompletion *completion = &m.plugin.host.log[id - 1];

            assert_int_equal(completion->struct_size, sizeof *completion);
            assert_int_equal(completion->ticket, id);
            assert_int_equal(completion->allocation_id, id);
            assert_int_equal(completion->mechanism_id, m.vtable->mechanism_id);
            assert_int_equal(completion->outcome.state, NXMEM_RELEASE_COMPLETE);
            assert_int_equal(completion->outcome.allocation_bytes, id * 1000);
            assert_int_equal(completion->outcome.unmapped_bytes, id * 1000);
        }
        assert_int_equal(testplugin_ask(&m.plugin, "DrainCalls"), 3);
        mechanism_close(&m);
    }
}

static void a_queued_release_is_no_longer_live(void **state)
{
    struct mechanism m;
    NxmemAllocation block;

    (void)state;
    mechanism_open(&m, "lazy", 1);
    block = must_enqueue(&m, 1, 100);
    assert_int_equal(enqueue(&m, &block, NULL), NXMEM_STATUS_UNKNOWN_ALLOCATION);
    assert_int_equal(release_now(m.vtable, &block, NULL), NXMEM_STATUS_UNKNOWN_ALLOCATION);
    assert_int_equal(drained(&m, UINT64_MAX), 1);
    mechanism_close(&m);
}

static void what_cannot_be_queued_stays_live(void **state)
{
    static const uint32_t codes[] = {NXMEM_STATUS_WRONG_MECHANISM, NXMEM_STATUS_WRONG_DEVICE,
                                     NXMEM_STATUS_UNKNOWN_ALLOCATION, NXMEM_STATUS_INVALID_ARGUMENT};
    struct mechanism m;
    NxmemAllocation block;

    (void)state;
    mechanism_open(&m, "lazy", 1);
    block = must_allocate(m.vtable, 1, 100, 256);
    for (unsigned wrong = 0; wrong < 4; wrong++) {
        NxmemAllocation bad = block;

        bad.mechanism_id += wrong == 0;
        bad.device.index += wrong <= 1;
        bad.allocation_id += wrong <= 2;
        bad.align += wrong == 3;
        assert_int_equal(enqueue(&m, &bad, NULL), codes[wrong]);
    }
    assert_int_equal(m.vtable->enqueue_release(m.ctx, &block, NULL).code, NXMEM_STATUS_INVALID_ARGUMENT);
    assert_report(&m, 1, 1, 0, 0, 0);
    assert_int_equal(release_now(m.vtable, &block, NULL), NXMEM_STATUS_OK);
    mechanism_close(&m);
}

static void a_refused_completion_loses_none_behind_it(void **state)
{
    struct mechanism m;
    uint64_t retired = 99;

    (void)state;
    mechanism_open(&m, "lazy", 1);
    for (uint64_t id = 1; id <= 3; id++)
        must_enqueue(&m, id, 100);
    m.plugin.host.refuse_from = 1;
    assert_int_equal(m.vtable->drain_releases(m.ctx, UINT64_MAX, &retired).code, NXMEM_STATUS_CALLBACK_FAILED);
    assert_int_equal(retired, 1);
    assert_int_equal(queued(&m), 2);
    assert_report(&m, 1, 2, 0, 0, 2);
    m.plugin.host.refuse_from = 0;
    assert_int_equal(drained(&m, UINT64_MAX), 2);
    assert_int_equal(m.plugin.host.log[1].allocation_id, 2);
    assert_int_equal(m.plugin.host.log[2].allocation_id, 3);
    mechanism_close(&m);
}

static void releases_retire_without_a_host_that_listens(void **state)
{
    NxmemOpenRequest request = {sizeof request, 1, {NXMEM_TIER_HOST, 0}, 0, NULL};
    const NxmemAllocatorFactoryVtable *factory;
    struct mechanism m;

    (void)state;
    plugin_load(&m.plugin, TESTPLUGIN, 1);
    factory = plugin_factory(&m.plugin, "lazy", 0);
    assert_int_equal(factory->open_allocator(factory->ctx, &request, &m.vtable).code, NXMEM_STATUS_OK);
    m.ctx = m.vtable->ctx;
    must_enqueue(&m, 1, 100);
    assert_int_equal(drained(&m, UINT64_MAX), 1);
    mechanism_close(&m);
}

/* --- the odd ones ------------------------------------------------------------------------------------------------------- */

static void sticky_retires_nothing_and_says_ok(void **state)
{
    struct mechanism m;

    (void)state;
    mechanism_open(&m, "sticky", 1);
    leaks_begin();
    must_enqueue(&m, 1, 100);
    leaks_end();
    assert_int_equal(drained(&m, UINT64_MAX), 0);
    assert_int_equal(queued(&m), 1);
    mechanism_release(&m);
    assert_report(&m, 1, 1, 0, 0, 1); /* the entry keeps its allocator, for good */
    plugin_unload(&m.plugin);
}

static void drip_retires_one_at_a_time(void **state)
{
    struct mechanism m;

    (void)state;
    mechanism_open(&m, "drip", 1);
    for (uint64_t id = 1; id <= 3; id++)
        must_enqueue(&m, id, 100);
    for (uint64_t left = 3; left-- > 0;) {
        assert_int_equal(drained(&m, UINT64_MAX), 1);
        assert_int_equal(queued(&m), left);
    }
    assert_int_equal(drained(&m, UINT64_MAX), 0);
    assert_int_equal(testplugin_ask(&m.plugin, "DrainCalls"), 4);
    mechanism_close(&m);
}

static void refusing_deferred_touches_nothing(void **state)
{
    struct mechanism m;
    NxmemAllocation block;
    NxmemStatus status;
    uint64_t ticket = 7;

    (void)state;
    mechanism_open(&m, "refusing-deferred", 1);
    block = must_allocate(m.vtable, 1, 100, 256);
    status = m.vtable->enqueue_release(m.ctx, &block, &ticket);
    assert_int_equal(status.code, NXMEM_STATUS_BUSY);
    assert_non_null(strstr((const char *)status.message, "refuses to queue"));
    assert_int_equal(ticket, 7);
    assert_int_equal(m.plugin.host.completions, 0);
    assert_report(&m, 1, 1, 0, 0, 0);
    assert_int_equal(release_now(m.vtable, &block, NULL), NXMEM_STATUS_OK);
    mechanism_close(&m);
}

static unsigned completions_before_the_request;

static void note_completions(void *argument)
{
    const struct fake_host *host = argument;

    completions_before_the_request = host->completions;
}

static void reentrant_completion_is_over_when_the_call_returns(void **state)
{
    struct mechanism m;

    (void)state;
    mechanism_open(&m, "reentrant-completion", 1);
    m.plugin.host.on_reclaim = note_completions;
    m.plugin.host.argument = &m.plugin.host;
    must_enqueue(&m, 1, 300);
    assert_int_equal(m.plugin.host.completions, 1);
    assert_int_equal(m.plugin.host.log[0].outcome.unmapped_bytes, 300);
    assert_int_equal(completions_before_the_request, 1);
    assert_int_equal(m.plugin.host.reclaims, 1);
    assert_int_equal(queued(&m), 0);
    mechanism_close(&m);
}

/* Once the bytes are gone the call may not fail: its host would take the block for live again. */
static void reentrant_completion_says_ok_whatever_the_host_answers(void **state)
{
    struct mechanism m;

    (void)state;
    mechanism_open(&m, "reentrant-completion", 1);
    m.plugin.host.complete_answer = NXMEM_STATUS_INTERNAL_ERROR;
    m.plugin.host.reclaim_answer = NXMEM_STATUS_UNSUPPORTED_CAPABILITY;
    must_enqueue(&m, 1, 300);
    assert_int_equal(m.plugin.host.completions, 1);
    assert_report(&m, 1, 0, 0, 0, 0);
    mechanism_close(&m);
}

static void complete_on_release_ends_one_entry_per_release(void **state)
{
    struct mechanism m;

    (void)state;
    mechanism_open(&m, "complete-on-release", 1);
    must_enqueue(&m, 1, 100);
    must_enqueue(&m, 2, 100);
    assert_int_equal(drained(&m, UINT64_MAX), 0);
    assert_int_equal(m.plugin.host.completions, 0);
    m.vtable->retain(m.ctx);
    m.vtable->release(m.ctx);
    assert_int_equal(m.plugin.host.completions, 1);
    assert_int_equal(m.plugin.host.log[0].allocation_id, 1);
    assert_report(&m, 1, 1, 0, 0, 1);
    mechanism_release(&m);
    assert_int_equal(m.plugin.host.completions, 2);
    mechanism_close(&m);
}

/* --- callback-after-drop --------------------------------------------------------------------------------------------------- */

static void a_parked_state_completes_after_the_drop_from_another_thread(void **state)
{
    struct mechanism m;

    (void)state;
    mechanism_open(&m, "callback-after-drop", 1);
    must_enqueue(&m, 1, 100);
    must_enqueue(&m, 2, 200);
    assert_int_equal(drained(&m, UINT64_MAX), 0);
    mechanism_release(&m);
    assert_int_equal(testplugin_ask(&m.plugin, "ParkedStateIsSet"), 1);
    assert_report(&m, 1, 2, 0, 0, 2);
    assert_int_equal(testplugin_ask(&m.plugin, "ReportParkedCompletion"), 1);
    assert_int_equal(m.plugin.host.completions, 1);
    assert_int_equal(m.plugin.host.log[0].allocation_id, 1);
    assert_int_equal(testplugin_ask(&m.plugin, "ParkedStateIsSet"), 1);
    assert_int_equal(testplugin_ask(&m.plugin, "ReportParkedCompletion"), 1);
    assert_int_equal(testplugin_ask(&m.plugin, "ParkedStateIsSet"), 0); /* the last entry held the state */
    assert_int_equal(testplugin_ask(&m.plugin, "ReportParkedCompletion"), 0);
    assert_int_equal(m.plugin.host.completions, 2);
    mechanism_close(&m);
}

static void a_park_without_entries_goes_with_its_state(void **state)
{
    struct mechanism m;

    (void)state;
    mechanism_open(&m, "callback-after-drop", 1);
    assert_int_equal(testplugin_ask(&m.plugin, "ParkedStateIsSet"), 1);
    assert_int_equal(testplugin_ask(&m.plugin, "ReportParkedCompletion"), 0); /* nothing queued */
    mechanism_release(&m);
    assert_int_equal(testplugin_ask(&m.plugin, "ParkedStateIsSet"), 0);
    mechanism_close(&m);
}

static void the_state_opened_last_is_the_parked_one(void **state)
{
    struct mechanism m, second;

    (void)state;
    mechanism_open(&m, "callback-after-drop", 1);
    second = m;
    assert_int_equal(
        plugin_open(&m.plugin, plugin_factory(&m.plugin, "callback-after-drop", 0), 1, 0, &second.vtable).code, 0);
    mechanism_release(&m); /* not the one parked */
    assert_int_equal(testplugin_ask(&second.plugin, "ParkedStateIsSet"), 1);
    m.vtable = second.vtable;
    m.ctx = second.vtable->ctx;
    must_enqueue(&m, 1, 100);
    assert_int_equal(testplugin_ask(&m.plugin, "ReportParkedCompletion"), 1);
    mechanism_close(&m);
}

/* --- threads -------------------------------------------------------------------------------------------------------------- */

enum { THREADS = 8, ROUNDS = 400 };

struct worker {
    const struct mechanism *m;
    uint64_t first_id;
    unsigned failures;
};

static void *queue_and_drain(void *argument)
{
    struct worker *worker = argument;
    const struct mechanism *m = worker->m;

    for (unsigned i = 0; i < ROUNDS; i++) {
        NxmemAllocRequest request = request_for(m->vtable, worker->first_id + i, 64, 64);
        NxmemAllocResult result = {.struct_size = sizeof result};
        NxmemAllocation block;
        uint64_t retired;

        worker->failures += m->vtable->allocate(m->ctx, &request, &result).code != 0;
        block = allocation_of(&request, &result);
        worker->failures += enqueue(m, &block, NULL) != 0;
        worker->failures += m->vtable->drain_releases(m->ctx, 1 + i % 4, &retired).code != 0;
    }
    return NULL;
}

/* Each entry holds the state from before it can be seen: a drain elsewhere may be done with it at once. */
static void threads_may_queue_and_drain_at_once(void **state)
{
    struct worker workers[THREADS];
    pthread_t threads[THREADS];
    struct mechanism m;

    (void)state;
    mechanism_open(&m, "lazy", 1);
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){&m, 1 + i * ROUNDS, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, queue_and_drain, &workers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(workers[i].failures, 0);
    }
    drained(&m, UINT64_MAX);
    assert_int_equal(m.plugin.host.completions, THREADS * ROUNDS);
    for (unsigned i = 1; i < LOG_CAPACITY; i++)
        assert_true(m.plugin.host.log[i].ticket > m.plugin.host.log[i - 1].ticket);
    mechanism_close(&m);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(releases_retire_in_their_order_and_keep_their_sizes),
        cmocka_unit_test(a_queued_release_is_no_longer_live),
        cmocka_unit_test(what_cannot_be_queued_stays_live),
        cmocka_unit_test(a_refused_completion_loses_none_behind_it),
        cmocka_unit_test(releases_retire_without_a_host_that_listens),
        cmocka_unit_test(sticky_retires_nothing_and_says_ok),
        cmocka_unit_test(drip_retires_one_at_a_time),
        cmocka_unit_test(refusing_deferred_touches_nothing),
        cmocka_unit_test(reentrant_completion_is_over_when_the_call_returns),
        cmocka_unit_test(reentrant_completion_says_ok_whatever_the_host_answers),
        cmocka_unit_test(complete_on_release_ends_one_entry_per_release),
        cmocka_unit_test(a_parked_state_completes_after_the_drop_from_another_thread),
        cmocka_unit_test(a_park_without_entries_goes_with_its_state),
        cmocka_unit_test(the_state_opened_last_is_the_parked_one),
        cmocka_unit_test(threads_may_queue_and_drain_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
