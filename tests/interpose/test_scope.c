#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <cmocka.h>

#include "fake_driver.h"
#include "interpose/context.h"
#include "interpose/lifecycle.h"
#include "interpose/process.h"
#include "interpose/scope.h"
#include "interpose/serve.h"

static CUresult no_driver(void *unused, CUdeviceptr *ret_address)
{
    (void)unused, (void)ret_address;
    return CUDA_ERROR_UNKNOWN;
}

static struct nxm_scope *enter(struct nxm_order *order)
{
    bool refuse = true;
    struct nxm_scope *scope = nxm_scope_enter_for(order, &refuse);

    assert_false(refuse);
    return scope;
}

static CUresult native_free(void *unused)
{
    (void)unused;
    return CUDA_ERROR_INVALID_VALUE;
}

static void each_context_and_each_device_has_an_allocator_of_its_own(void **state)
{
    struct nxm_order first, second, on_stream;
    (void)state;
    assert_int_equal(nxm_order_synchronous(&first), CUDA_SUCCESS);
    fake.current = OTHER_CONTEXT;
    assert_int_equal(nxm_order_synchronous(&second), CUDA_SUCCESS);
    assert_int_equal(nxm_order_stream(FAKE_STREAM, false, &on_stream), CUDA_SUCCESS);
    struct nxm_scope *a = enter(&first), *b = enter(&second), *c = enter(&on_stream), *again = enter(&first);
    assert_ptr_equal(a, again);
    assert_ptr_not_equal(a->allocator, b->allocator);
    assert_ptr_not_equal(a->allocator, c->allocator);
    assert_null(c->context);
    nxm_scope_leave(a);
    nxm_scope_leave(again);
    nxm_scope_leave(b);
    nxm_scope_leave(c);
}

/* Several may end at once, and each ends for itself. */
static void no_scope_is_opened_for_a_context_that_ends(void **state)
{
    struct nxm_order order, on_stream;
    static struct nxm_ending older, ending, newer; /* a test that fails leaves them behind */
    bool refuse = true;
    (void)state;
    fake.current = (CUcontext)(uintptr_t)0x5800;
    assert_int_equal(nxm_order_synchronous(&order), CUDA_SUCCESS);
    assert_int_equal(nxm_order_stream(FAKE_STREAM, false, &on_stream), CUDA_SUCCESS);
    struct nxm_scope *scope = enter(&order);
    nxm_scope_leave(scope);
    nxm_scope_ending_begin(&older, FAKE_CONTEXT);
    nxm_scope_ending_begin(&ending, order.context);
    nxm_scope_ending_begin(&newer, OTHER_CONTEXT);
    nxm_scope_leave(enter(&order)); /* the one that is there serves until it is closed */
    nxm_scope_close_context(order.context);
    assert_null(nxm_scope_enter_for(&order, &refuse));
    assert_false(refuse);
    nxm_scope_leave(enter(&on_stream)); /* memory that outlives contexts is served all the time */
    nxm_scope_ending_end(&ending);
    nxm_scope_leave(enter(&order));
    nxm_scope_close_context(order.context);
    nxm_scope_ending_end(&older);
    nxm_scope_ending_end(&newer);
}

static void note_scope(struct nxm_scope *scope, void *argument)
{
    *(struct nxm_scope **)argument = scope;
}

/* What is being given back does not grow any more, and there is one who gives it back. */
static void a_shut_scope_is_its_closers_alone(void **state)
{
    struct nxm_order order;
    static struct nxm_ending ending, again;
    struct nxm_scope *seen = NULL;
    bool refuse = true;
    (void)state;
    fake.current = (CUcontext)(uintptr_t)0x5900;
    assert_int_equal(nxm_order_synchronous(&order), CUDA_SUCCESS);
    struct nxm_scope *scope = enter(&order);
    nxm_scope_leave(scope);
    nxm_scope_ending_begin(&ending, order.context);
    nxm_scope_ending_begin(&again, order.context);
    nxm_scope_shut_context(&ending);
    assert_null(nxm_scope_enter_for(&order, &refuse));
    assert_false(nxm_scope_enter(scope));
    assert_non_null(scope->allocator);
    nxm_scope_shut_context(&again);
    nxm_scope_each_shut(&again, note_scope, &seen);
    assert_null(seen);
    nxm_scope_give_up(&again);
    assert_non_null(scope->allocator);
    nxm_scope_each_shut(&ending, note_scope, &seen);
    assert_ptr_equal(seen, scope);
    nxm_scope_give_up(&ending);
    assert_null(scope->allocator);
    nxm_scope_ending_end(&ending);
    nxm_scope_ending_end(&again);
}

static void closing_a_context_gives_its_allocator_up_and_its_blocks_back(void **state)
{
    struct nxm_order order;
    CUdeviceptr address = 0;
    struct nxm_block block;
    (void)state;
    fake.current = (CUcontext)(uintptr_t)0x5000;
    assert_int_equal(nxm_order_synchronous(&order), CUDA_SUCCESS);
    struct nxm_scope *scope = enter(&order);
    assert_int_equal(nxm_serve_allocate(scope, &order, 100, NXM_API_cuMemAlloc_v2, no_driver, NULL, &address), CUDA_SUCCESS);
    nxm_scope_leave(scope);
    nxm_scope_close_context(order.context);
    assert_null(scope->allocator);
    assert_false(nxm_scope_enter(scope));
    assert_int_not_equal(nxm_blocks_find(nxm_table(NXM_TABLE_MEMORY), address, &block), NXM_OK);
    /* a context may come back under the same handle: with a fresh scope */
    struct nxm_scope *fresh = enter(&order);
    assert_non_null(fresh);
    assert_ptr_not_equal(fresh, scope);
    nxm_scope_leave(fresh);
}

static void the_last_to_leave_a_closed_scope_gives_the_allocator_up(void **state)
{
    struct nxm_order order;
    (void)state;
    fake.current = (CUcontext)(uintptr_t)0x6000;
    assert_int_equal(nxm_order_synchronous(&order), CUDA_SUCCESS);
    struct nxm_scope *scope = enter(&order);
    nxm_scope_close_context(order.context); /* bounded: this thread is inside */
    assert_non_null(scope->allocator);
    assert_false(nxm_scope_enter(scope));
    nxm_scope_leave(scope);
    assert_null(scope->allocator);
}

static struct {
    struct nxm_scope *scope;
    _Atomic bool is_in, may_leave, has_left;
} last;

static void *be_the_last(void *unused)
{
    nxm_scope_enter(last.scope);
    atomic_store(&last.is_in, true);
    while (!atomic_load(&last.may_leave))
        sched_yield();
    nxm_scope_leave(last.scope);
    atomic_store_explicit(&last.has_left, true, memory_order_relaxed); /* orders nothing: a sanitizer sees who looks too closely */
    return unused;
}

/* What a thread does that looked before the scope was closed, and counted itself in after. */
static void turned_away(struct nxm_scope *scope)
{
    nxm_spread_raise(scope->counts, NXM_SCOPE_USERS, 1);
    nxm_scope_leave(scope);
}

static void who_is_turned_away_while_a_scope_closes_gives_nothing_up(void **state)
{
    struct nxm_order order;
    (void)state;
    fake.current = (CUcontext)(uintptr_t)0x6200;
    assert_int_equal(nxm_order_synchronous(&order), CUDA_SUCCESS);
    struct nxm_scope *scope = enter(&order);
    nxm_scope_leave(scope);
    atomic_store(&scope->closed, true); /* and its releases are still waited for */
    turned_away(scope);
    assert_non_null(scope->allocator);
    atomic_store(&scope->closed, false);
    nxm_scope_close_context(order.context);
    assert_null(scope->allocator);
}

static void who_comes_after_the_last_leaves_the_allocator_to_it(void **state)
{
    struct nxm_order order;
    pthread_t thread;
    (void)state;
    fake.current = (CUcontext)(uintptr_t)0x6100;
    assert_int_equal(nxm_order_synchronous(&order), CUDA_SUCCESS);
    last.scope = enter(&order);
    nxm_scope_leave(last.scope);
    assert_int_equal(pthread_create(&thread, NULL, be_the_last, NULL), 0);
    while (!atomic_load(&last.is_in))
        sched_yield();
    nxm_scope_close_context(order.context); /* bounded, as above */
    atomic_store(&last.may_leave, true);
    while (!atomic_load_explicit(&last.has_left, memory_order_relaxed))
        sched_yield();
    turned_away(last.scope);
    pthread_join(thread, NULL);
    assert_null(last.scope->allocator);
}

static void a_free_of_a_block_whose_scope_is_closed_never_reaches_a_plugin(void **state)
{
    struct nxm_order order;
    CUdeviceptr address = 0;
    (void)state;
    fake.current = (CUcontext)(uintptr_t)0x7000;
    assert_int_equal(nxm_order_synchronous(&order), CUDA_SUCCESS);
    struct nxm_scope *scope = enter(&order);
    assert_int_equal(nxm_serve_allocate(scope, &order, 100, NXM_API_cuMemAlloc_v2, no_driver, NULL, &address), CUDA_SUCCESS);
    atomic_store(&scope->closed, true); /* another thread is about to destroy the context */
    assert_int_equal(nxm_serve_free(address, &order, native_free, NULL), CUDA_ERROR_INVALID_VALUE);
    atomic_store(&scope->closed, false);
    nxm_scope_leave(scope);
    nxm_scope_close_context(order.context);
}

/* A block of a context of its own, queued in the plugin. */
static struct nxm_scope *queue_one(uintptr_t context, struct nxm_order *ret_order, CUdeviceptr *ret_address)
{
    struct nxm_release release;
    struct nxm_scope *scope;

    fake.current = (CUcontext)context;
    assert_int_equal(nxm_order_synchronous(ret_order), CUDA_SUCCESS);
    scope = enter(ret_order);
    assert_int_equal(nxm_serve_allocate(scope, ret_order, 100, NXM_API_cuMemAlloc_v2, no_driver, NULL, ret_address), CUDA_SUCCESS);
    assert_int_equal(nxm_allocator_enqueue(scope->allocator, *ret_address, 0, NXM_BLOCK_LIVE, NULL, NULL, &release, NULL), NXM_OK);
    assert_int_equal(release.outcome, NXM_RELEASE_QUEUED);
    return scope;
}

static void a_queued_release_pins_its_scope(void **state)
{
    struct nxm_order order;
    CUdeviceptr address = 0;
    (void)state;
    struct nxm_scope *scope = queue_one(0x9000, &order, &address);
    assert_int_equal(nxm_spread_sum(scope->counts, NXM_SCOPE_PINS), 1);
    assert_int_equal(nxm_allocator_drain(scope->allocator, UINT64_MAX), 1);
    assert_int_equal(nxm_spread_sum(scope->counts, NXM_SCOPE_PINS), 0);
    nxm_scope_leave(scope);
    nxm_scope_close_context(order.context);
}

static void a_closed_scope_gives_no_pin(void **state)
{
    struct nxm_release release;
    struct nxm_order order;
    CUdeviceptr address = 0;
    (void)state;
    struct nxm_scope *scope = queue_one(0xa000, &order, &address);
    nxm_allocator_drain(scope->allocator, UINT64_MAX);
    assert_int_equal(nxm_serve_allocate(scope, &order, 100, NXM_API_cuMemAlloc_v2, no_driver, NULL, &address), CUDA_SUCCESS);
    atomic_store(&scope->closed, true);
    assert_int_equal(nxm_allocator_enqueue(scope->allocator, address, 0, NXM_BLOCK_LIVE, NULL, NULL, &release, NULL), NXM_ERETIRED);
    assert_int_equal(nxm_spread_sum(scope->counts, NXM_SCOPE_PINS), 0);
    atomic_store(&scope->closed, false);
    nxm_scope_leave(scope);
    nxm_scope_close_context(order.context);
}

static struct {
    struct nxm_scope *scope;
    _Atomic bool was_there, was_let_in;
} late;

/* What a plugin's own thread does that ends a release while the context is being closed. */
static void *end_late(void *unused)
{
    const struct timespec moment = { .tv_sec = 0, .tv_nsec = 10000000 };

    (void)unused;
    while (!atomic_load(&late.scope->closed))
        sched_yield();
    atomic_store(&late.was_let_in, nxm_scope_enter(late.scope)); /* who is turned away does not give the allocator up */
    nanosleep(&moment, NULL); /* enough for a close that does not wait */
    atomic_store(&late.was_there, late.scope->allocator != NULL);
    nxm_spread_lower(late.scope->counts, NXM_SCOPE_PINS, 1);
    return NULL;
}

static void closing_waits_for_what_is_queued(void **state)
{
    struct nxm_order order;
    CUdeviceptr address = 0;
    pthread_t thread;
    (void)state;
    late.scope = queue_one(0xb000, &order, &address);
    nxm_spread_raise(late.scope->counts, NXM_SCOPE_PINS, 1); /* of a release that no drain ends */
    nxm_scope_leave(late.scope);
    assert_int_equal(pthread_create(&thread, NULL, end_late, NULL), 0);
    nxm_scope_close_context(order.context);
    pthread_join(thread, NULL);
    assert_false(atomic_load(&late.was_let_in));
    assert_true(atomic_load(&late.was_there));
    assert_null(late.scope->allocator);
    assert_int_equal(nxm_spread_sum(late.scope->counts, NXM_SCOPE_PINS), 0);
}

static void closing_does_not_wait_for_ever(void **state)
{
    struct nxm_order order;
    CUdeviceptr address = 0;
    (void)state;
    struct nxm_scope *scope = queue_one(0xc000, &order, &address);
    nxm_spread_raise(scope->counts, NXM_SCOPE_PINS, 1); /* of one that never ends */
    nxm_scope_leave(scope);
    nxm_scope_close_context(order.context);
    assert_null(scope->allocator);
    assert_int_equal(nxm_spread_sum(scope->counts, NXM_SCOPE_PINS), 1);
    fake.current = (CUcontext)0xC300; /* its end may still come: nobody else has its counts */
    assert_int_equal(nxm_order_synchronous(&order), CUDA_SUCCESS);
    struct nxm_scope *next = enter(&order);
    assert_ptr_not_equal(next->counts, scope->counts);
    nxm_scope_leave(next);
}

static void nobody(struct nxm_scope *scope, void *unused)
{
    (void)scope, (void)unused;
}

/* A walk that stands on a scope while it goes still reaches those behind it. */
static void a_scope_that_is_gone_is_off_the_list_and_still_leads_on(void **state)
{
    struct nxm_order order;
    (void)state;
    struct nxm_scope *scope[3];
    for (uintptr_t i = 0; i < 3; i++) {
        fake.current = (CUcontext)(0x9000 + i * 16);
        assert_int_equal(nxm_order_synchronous(&order), CUDA_SUCCESS);
        scope[i] = enter(&order);
        nxm_scope_leave(scope[i]);
    }
    assert_ptr_equal(scope[2]->next, scope[1]);
    nxm_scope_close_context(scope[1]->context);
    assert_ptr_equal(scope[2]->next, scope[0]);
    assert_ptr_equal(scope[1]->next, scope[0]);
    nxm_scope_each(nobody, NULL);
    nxm_scope_close_context(scope[2]->context);
    nxm_scope_close_context(scope[0]->context);
}

/* What a thread keeps of the last one is no answer for another context, device or kind of memory. */
static void the_scope_entered_last_is_not_entered_for_another_order(void **state)
{
    struct nxm_order order, on_stream, elsewhere;
    bool refuse;
    (void)state;
    assert_int_equal(nxm_order_synchronous(&order), CUDA_SUCCESS);
    assert_int_equal(nxm_order_stream(FAKE_STREAM, false, &on_stream), CUDA_SUCCESS);
    struct nxm_scope *first = enter(&order), *stream = enter(&on_stream);
    elsewhere = on_stream;
    elsewhere.device = 1;
    struct nxm_scope *other = nxm_scope_enter_for(&elsewhere, &refuse);
    assert_ptr_not_equal(other, stream);
    elsewhere = order;
    elsewhere.context = OTHER_CONTEXT;
    struct nxm_scope *second = enter(&elsewhere);
    assert_ptr_not_equal(second, first);
    assert_ptr_equal(second->context, OTHER_CONTEXT);
    if (other)
        nxm_scope_leave(other);
    nxm_scope_leave(first);
    nxm_scope_leave(second);
    nxm_scope_leave(stream);
}

static CUresult device_one(CUdevice *device)
{
    *device = 1;
    return CUDA_SUCCESS;
}

static void a_handle_that_comes_back_for_another_context_is_asked_about_again(void **state)
{
    struct nxm_order order;
    (void)state;
    fake.current = (CUcontext)(uintptr_t)0xd000;
    assert_int_equal(nxm_order_synchronous(&order), CUDA_SUCCESS);
    assert_int_equal(order.device, 0);
    nxm_real.cuCtxGetDevice = device_one;
    assert_int_equal(nxm_order_synchronous(&order), CUDA_SUCCESS);
    assert_int_equal(order.device, 0); /* known */
    nxm_scope_close_context(fake.current);
    assert_int_equal(nxm_order_synchronous(&order), CUDA_SUCCESS);
    assert_int_equal(order.device, 1);
    nxm_context_forget(fake.current);
}

static void a_context_that_turns_out_green_is_of_its_owner_at_once(void **state)
{
    struct nxm_order order;
    (void)state;
    fake.current = (CUcontext)(uintptr_t)0xe000;
    assert_int_equal(nxm_order_synchronous(&order), CUDA_SUCCESS);
    assert_ptr_equal(order.context, fake.current);
    nxm_context_is_green(fake.current, FAKE_CONTEXT);
    assert_int_equal(nxm_order_synchronous(&order), CUDA_SUCCESS);
    assert_ptr_equal(order.context, FAKE_CONTEXT);
    nxm_context_forget(fake.current);
    assert_int_equal(nxm_order_synchronous(&order), CUDA_SUCCESS);
    assert_ptr_equal(order.context, fake.current);
}

static void *hammer(void *unused)
{
    struct nxm_order order = { .context = (CUcontext)(uintptr_t)0x8000, .device = 0 };
    bool refuse;

    order.cuda.kind = NXMEM_CUDA_ORDER_SYNCHRONOUS;
    for (int i = 0; i < 2000; i++) {
        struct nxm_scope *scope = nxm_scope_enter_for(&order, &refuse);
        CUdeviceptr address = 0;
        if (!scope)
            continue;
        nxm_serve_allocate(scope, &order, 64, NXM_API_cuMemAlloc_v2, no_driver, NULL, &address);
        nxm_scope_leave(scope);
        if (i % 50 == 0)
            nxm_scope_close_context(order.context);
    }
    return unused;
}

static void threads_may_allocate_while_their_context_is_closed_again_and_again(void **state)
{
    pthread_t thread[4];
    (void)state;
    fake.current = (CUcontext)(uintptr_t)0x8000;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, hammer, NULL), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    nxm_scope_close_context((CUcontext)(uintptr_t)0x8000);
}

static int begin(void **state)
{
    (void)state;
    setenv("NXMEM_PLUGIN", NXM_TEST_PLUGIN, 1);
    setenv("NXMEM_HOST_AS_DEVICE", "1", 1);
    fake_driver_reset();
    enum nxm_mode mode = nxm_enter(NULL, true);
    nxm_leave(mode);
    return mode == NXM_MODE_SERVE && nxm_plugin() ? 0 : -1;
}

static int reset(void **state)
{
    (void)state;
    fake_driver_reset();
    return 0;
}

/* A program may make and destroy contexts for as long as it runs. */
static void the_counts_of_a_closed_scope_serve_the_next(void **state)
{
    struct nxm_spread *counts = NULL;
    struct nxm_order order;

    (void)state;
    for (uintptr_t i = 0; i < 3; i++) {
        fake.current = (CUcontext)(0xA000 + (i << 8));
        assert_int_equal(nxm_order_synchronous(&order), CUDA_SUCCESS);
        struct nxm_scope *scope = enter(&order);
        if (counts)
            assert_ptr_equal(scope->counts, counts);
        counts = scope->counts;
        nxm_scope_leave(scope);
        nxm_scope_close_context(order.context);
        assert_false(nxm_scope_enter(scope));
        assert_int_equal(nxm_spread_sum(counts, NXM_SCOPE_USERS), 0);
    }
}

int main(void)
{
#define SCOPE(test) cmocka_unit_test_setup(test, reset)
    const struct CMUnitTest tests[] = {
        SCOPE(each_context_and_each_device_has_an_allocator_of_its_own),
        SCOPE(closing_a_context_gives_its_allocator_up_and_its_blocks_back),
        SCOPE(a_shut_scope_is_its_closers_alone),
        SCOPE(no_scope_is_opened_for_a_context_that_ends),
        SCOPE(the_last_to_leave_a_closed_scope_gives_the_allocator_up),
        SCOPE(who_is_turned_away_while_a_scope_closes_gives_nothing_up),
        SCOPE(who_comes_after_the_last_leaves_the_allocator_to_it),
        SCOPE(a_free_of_a_block_whose_scope_is_closed_never_reaches_a_plugin),
        SCOPE(a_queued_release_pins_its_scope),
        SCOPE(a_closed_scope_gives_no_pin),
        SCOPE(closing_waits_for_what_is_queued),
        SCOPE(closing_does_not_wait_for_ever),
        SCOPE(a_scope_that_is_gone_is_off_the_list_and_still_leads_on),
        SCOPE(the_scope_entered_last_is_not_entered_for_another_order),
        SCOPE(a_handle_that_comes_back_for_another_context_is_asked_about_again),
        SCOPE(a_context_that_turns_out_green_is_of_its_owner_at_once),
        SCOPE(the_counts_of_a_closed_scope_serve_the_next),
        SCOPE(threads_may_allocate_while_their_context_is_closed_again_and_again),
    };
    return cmocka_run_group_tests(tests, begin, NULL);
}
