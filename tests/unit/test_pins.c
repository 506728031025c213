/* core/pins.h, provider.c, deferred.c: a queued release pins the provider context, and nothing else does. */
#include "core/provider.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/mem.h"
#include "tests/unit/support/fake.h"
#include "tests/unit/support/host.h"

static struct nxm_provider *provider;

/* An allocator bound to a provider context of its own. */
static int setup(void **state)
{
    int result = host_setup_deferred(state);

    alarm(200); /* what would hang ends */
    host_close();
    assert_int_equal(nxm_provider_new(&provider), NXM_OK);
    host.options.pins = nxm_provider_source(provider);
    if (result == 0)
        host_open();
    return result;
}

static int teardown(void **state)
{
    int result = host_teardown(state);

    assert_int_equal(nxm_provider_pins(provider), 0);
    nxm_provider_unref(provider);
    return result;
}

/* --- the provider by itself ------------------------------------------------------------------------ */

static void a_context_gives_pins_until_it_is_retired(void **state)
{
    struct nxm_provider *alone;

    (void)state;
    assert_int_equal(nxm_provider_new(&alone), NXM_OK);
    assert_true(nxm_provider_pin(alone));
    assert_true(nxm_provider_pin(alone));
    assert_int_equal(nxm_provider_pins(alone), 2);
    nxm_provider_retire(alone);
    assert_false(nxm_provider_pin(alone));
    assert_int_equal(nxm_provider_pins(alone), 2);
    nxm_provider_unpin(alone);
    nxm_provider_unpin(alone);
    nxm_provider_wait(alone); /* nothing to wait for */
    nxm_provider_ref(alone);
    nxm_provider_unref(alone);
    nxm_provider_unref(alone);
    nxm_provider_unref(NULL);
}

static void without_memory_there_is_no_context(void **state)
{
    struct nxm_provider *alone = NULL;

    (void)state;
    nxm_mem_fail_at(1);
    assert_int_equal(nxm_provider_new(&alone), NXM_ENOMEM);
    nxm_mem_fail_at(0);
    assert_null(alone);
}

/* --- bound ----------------------------------------------------------------------------------------- */

static uint64_t pins_inside;

static void look_at_pins(void)
{
    pins_inside = nxm_provider_pins(provider);
}

static void a_queued_release_is_one_pin_until_it_is_completed(void **state)
{
    struct nxm_block first = host_allocate(64), second = host_allocate(64);

    (void)state;
    assert_int_equal(nxm_provider_pins(provider), 0); /* blocks are none */
    fake.in_enqueue = look_at_pins;
    host_enqueued(&first);
    assert_int_equal(pins_inside, 1); /* taken before the plugin was entered */
    host_enqueued(&second);
    assert_int_equal(nxm_provider_pins(provider), 2);
    assert_int_equal(nxm_allocator_drain(host.allocator, 1), 1);
    assert_int_equal(nxm_provider_pins(provider), 1);
    assert_int_equal(nxm_allocator_drain(host.allocator, 1), 1);
    assert_int_equal(nxm_provider_pins(provider), 0);
}

static void a_release_at_once_needs_no_pin(void **state)
{
    struct nxm_block block = host_allocate(64);
    struct nxm_release release;

    (void)state;
    nxm_provider_retire(provider);
    assert_int_equal(host_release(&block, &release), NXM_OK);
}

static void a_completion_inside_enqueue_gives_the_pin_back(void **state)
{
    struct nxm_block block = host_allocate(64);

    (void)state;
    fake.complete_in_enqueue = true;
    fake.in_enqueue = look_at_pins;
    assert_int_equal(host_enqueued(&block).outcome, NXM_RELEASE_COMPLETE);
    assert_int_equal(pins_inside, 0);
    assert_int_equal(nxm_provider_pins(provider), 0);
}

static void a_refusal_gives_the_pin_back(void **state)
{
    const uint32_t statuses[] = { NXMEM_STATUS_BUSY, NXMEM_STATUS_INTERNAL_ERROR };
    struct nxm_block block;
    struct nxm_release release;

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        block = host_allocate(64);
        fake.enqueue_status = statuses[i];
        host_enqueue(&block, &release);
        assert_int_equal(fake.enqueues, i + 1);
        assert_int_equal(nxm_provider_pins(provider), 0);
    }
    fake.enqueue_status = 0;
}

static void a_completion_that_failed_gives_the_pin_back(void **state)
{
    struct nxm_block block = host_allocate(64);

    (void)state;
    fake.completion = (struct fake_answer){ .set = true, .state = NXMEM_RELEASE_FAILED, .keep = true };
    host_enqueued(&block);
    assert_int_equal(nxm_allocator_drain(host.allocator, UINT64_MAX), 1);
    assert_int_equal(nxm_provider_pins(provider), 0);
    assert_int_equal(host_state(block.address), NXM_BLOCK_LIVE);
    fake.completion.set = false;
}

static void a_duplicate_completion_takes_no_second_pin(void **state)
{
    struct nxm_block block = host_allocate(64), other = host_allocate(64);
    uint64_t ticket;

    (void)state;
    host_enqueued(&block);
    ticket = fake_last_ticket();
    host_enqueued(&other);
    assert_int_equal(nxm_allocator_drain(host.allocator, 1), 1);
    assert_int_equal(fake_send(fake.last_callbacks, nxm_allocator_mechanism_id(host.allocator), block.id, ticket,
                               NXMEM_RELEASE_COMPLETE),
                     NXMEM_STATUS_UNKNOWN_ALLOCATION);
    assert_int_equal(nxm_provider_pins(provider), 1);
}

static void a_retired_context_refuses_before_anything_is_counted_or_entered(void **state)
{
    struct nxm_block block = host_allocate(64);
    struct nxm_error error = { 0 };
    struct nxm_release release;

    (void)state;
    nxm_provider_retire(provider);
    assert_int_equal(nxm_allocator_enqueue(host.allocator, block.address, block.id, NXM_BLOCK_LIVE, NULL, NULL, &release, &error),
                     NXM_ERETIRED);
    assert_int_equal(error.code, NXM_ERETIRED);
    assert_int_equal(fake.enqueues, 0);
    host_assert_counts(1, 0);
    assert_int_equal(host_state(block.address), NXM_BLOCK_LIVE);
    assert_int_equal(host_release(&block, &release), NXM_OK);
}

/* As if so many releases were queued. */
static void a_pin_that_cannot_be_counted_is_refused(void **state)
{
    struct nxm_block first = host_allocate(64), second = host_allocate(64);
    struct nxm_error error = { 0 };
    struct nxm_release release;

    (void)state;
    provider->pins = UINT64_MAX - 1;
    assert_int_equal(host_enqueue(&first, &release), NXM_OK);
    assert_int_equal(nxm_provider_pins(provider), UINT64_MAX);
    assert_int_equal(nxm_allocator_enqueue(host.allocator, second.address, second.id, NXM_BLOCK_LIVE, NULL, NULL, &release, &error),
                     NXM_ERETIRED);
    assert_int_equal(nxm_provider_pins(provider), UINT64_MAX); /* not 0, which would let the context end */
    assert_int_equal(fake.enqueues, 1);
    host_assert_counts(2, 1);
    assert_int_equal(host_state(second.address), NXM_BLOCK_LIVE);
    assert_int_equal(nxm_allocator_drain(host.allocator, UINT64_MAX), 1);
    assert_int_equal(nxm_provider_pins(provider), UINT64_MAX - 1);
    provider->pins = 0;
}

static void a_refused_pin_leaves_a_waiting_block_waiting(void **state)
{
    struct nxm_block block = host_allocate(64);
    struct nxm_release release;

    (void)state;
    assert_int_equal(nxm_blocks_claim(host.blocks, block.address, 0, NXM_BLOCK_LIVE, NXM_BLOCK_WAITING, NULL), NXM_OK);
    nxm_provider_retire(provider);
    for (int i = 0; i < 100; i++) /* and the memory reserved for it is not lost either */
        assert_int_equal(nxm_allocator_enqueue(host.allocator, block.address, block.id, NXM_BLOCK_WAITING, NULL, NULL,
                                               &release, NULL),
                         NXM_ERETIRED);
    assert_int_equal(host_state(block.address), NXM_BLOCK_WAITING);
}

static void the_wrong_shape_is_refused_before_the_pin(void **state)
{
    struct nxm_block block = host_allocate(64);
    struct nxm_release release;

    (void)state;
    nxm_provider_retire(provider);
    assert_int_equal(nxm_allocator_enqueue_shaped(host.allocator, block.address, 65, 256, &release, NULL), NXM_EINVAL);
    assert_int_equal(nxm_allocator_enqueue_shaped(host.allocator, block.address, 64, 512, &release, NULL), NXM_EINVAL);
    assert_int_equal(nxm_allocator_enqueue_shaped(host.allocator, block.address + 8, 64, 256, &release, NULL), NXM_ENOENT);
    assert_int_equal(host_state(block.address), NXM_BLOCK_LIVE);
    assert_int_equal(nxm_allocator_enqueue_shaped(host.allocator, block.address, 64, 256, &release, NULL), NXM_ERETIRED);
}

static void the_right_shape_is_queued(void **state)
{
    struct nxm_block block = host_allocate(64);
    struct nxm_release release;

    (void)state;
    assert_int_equal(nxm_allocator_enqueue_shaped(host.allocator, block.address, 64, 256, &release, NULL), NXM_OK);
    assert_int_equal(release.outcome, NXM_RELEASE_QUEUED);
    assert_int_equal(release.ticket, fake_last_ticket());
    assert_int_equal(nxm_allocator_enqueue_shaped(host.allocator, block.address, 64, 256, &release, NULL), NXM_EBUSY);
}

/* One pin a release however it goes, whether or not anybody is told of its completion. */
static void who_is_told_nothing_gives_every_pin_back_once(void **state)
{
    struct nxm_release release;
    struct nxm_block block;

    (void)state;
    host_close();
    host.options.completed = NULL;
    host_open();
    assert_true(nxm_provider_pin(provider)); /* so that one given back too often is missing */
    for (int in_call = 0; in_call <= 1; in_call++) {
        block = host_allocate(64);
        fake.complete_in_enqueue = in_call;
        host_enqueued(&block);
        assert_int_equal(nxm_provider_pins(provider), in_call ? 1 : 2);
        nxm_allocator_drain(host.allocator, UINT64_MAX);
        assert_int_equal(nxm_provider_pins(provider), 1);
    }
    fake.complete_in_enqueue = false;
    fake.enqueue_status = NXMEM_STATUS_BUSY;
    block = host_allocate(64);
    assert_int_equal(host_enqueue(&block, &release), NXM_ECALL);
    assert_int_equal(nxm_provider_pins(provider), 1);
    nxm_provider_unpin(provider);
}

static void an_unbound_allocator_queues_as_ever(void **state)
{
    struct nxm_block block;

    (void)state;
    host_close();
    host.options.pins = (struct nxm_pin_source){ .pin = NULL };
    host_open();
    nxm_provider_retire(provider);
    block = host_allocate(64);
    assert_int_equal(host_enqueued(&block).outcome, NXM_RELEASE_QUEUED);
    assert_int_equal(nxm_provider_pins(provider), 0);
}

/* --- the context's end ----------------------------------------------------------------------------- */

static atomic_uint ended;

static void *end_context(void *argument)
{
    nxm_provider_retire(argument);
    nxm_provider_wait(argument);
    atomic_store(&ended, 1);
    return NULL;
}

static void the_end_of_a_context_waits_for_its_queued_releases(void **state)
{
    struct nxm_block block = host_allocate(64);
    pthread_t thread;

    (void)state;
    atomic_store(&ended, 0);
    host_enqueued(&block);
    assert_int_equal(pthread_create(&thread, NULL, end_context, provider), 0);
    while (nxm_provider_pin(provider)) /* until it is retired: it waits now, or will */
        nxm_provider_unpin(provider);
    for (int i = 0; i < 1000; i++) { /* time for one that does not wait */
        sched_yield();
        assert_int_equal(atomic_load(&ended), 0);
    }
    assert_int_equal(nxm_allocator_drain(host.allocator, UINT64_MAX), 1);
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&ended), 1);
}

static uint64_t pins_at_completion;

static void look_when_completed(void *owner, const struct nxm_block *block, const struct nxm_release *release)
{
    (void)owner;
    (void)block;
    (void)release;
    pins_at_completion = nxm_provider_pins(provider);
}

static void the_pin_is_held_until_the_completion_has_ended(void **state)
{
    struct nxm_block block;

    (void)state;
    host_close();
    host.options.completed = look_when_completed;
    host_open();
    block = host_allocate(64);
    host_enqueued(&block);
    assert_int_equal(nxm_allocator_drain(host.allocator, UINT64_MAX), 1);
    assert_int_equal(pins_at_completion, 1);
}

static void teardown_drains_and_gives_every_pin_back(void **state)
{
    struct nxm_block block;

    (void)state;
    for (int i = 0; i < 5; i++) {
        block = host_allocate(64);
        host_enqueued(&block);
    }
    assert_int_equal(nxm_provider_pins(provider), 5);
    host_close();
    assert_int_equal(nxm_provider_pins(provider), 0);
}

static void a_completion_from_the_final_release_gives_the_pin_back(void **state)
{
    struct nxm_block block = host_allocate(64);

    (void)state;
    host_enqueued(&block);
    fake.drain_nothing = true;
    fake.complete_in_release = true;
    host_close();
    assert_int_equal(nxm_provider_pins(provider), 0);
}

#define ALONE(name) cmocka_unit_test(name)
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ALONE(a_context_gives_pins_until_it_is_retired),
        ALONE(without_memory_there_is_no_context),
        TEST(a_queued_release_is_one_pin_until_it_is_completed),
        TEST(a_release_at_once_needs_no_pin),
        TEST(a_completion_inside_enqueue_gives_the_pin_back),
        TEST(a_refusal_gives_the_pin_back),
        TEST(a_completion_that_failed_gives_the_pin_back),
        TEST(a_duplicate_completion_takes_no_second_pin),
        TEST(a_retired_context_refuses_before_anything_is_counted_or_entered),
        TEST(a_pin_that_cannot_be_counted_is_refused),
        TEST(a_refused_pin_leaves_a_waiting_block_waiting),
        TEST(the_wrong_shape_is_refused_before_the_pin),
        TEST(the_right_shape_is_queued),
        TEST(who_is_told_nothing_gives_every_pin_back_once),
        TEST(an_unbound_allocator_queues_as_ever),
        TEST(the_end_of_a_context_waits_for_its_queued_releases),
        TEST(the_pin_is_held_until_the_completion_has_ended),
        TEST(teardown_drains_and_gives_every_pin_back),
        TEST(a_completion_from_the_final_release_gives_the_pin_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
