#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <pthread.h>
#include <cmocka.h>

#include "fake_driver.h"
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

int main(void)
{
#define SCOPE(test) cmocka_unit_test_setup(test, reset)
    const struct CMUnitTest tests[] = {
        SCOPE(each_context_and_each_device_has_an_allocator_of_its_own),
        SCOPE(closing_a_context_gives_its_allocator_up_and_its_blocks_back),
        SCOPE(the_last_to_leave_a_closed_scope_gives_the_allocator_up),
        SCOPE(a_free_of_a_block_whose_scope_is_closed_never_reaches_a_plugin),
        SCOPE(a_scope_that_is_gone_is_off_the_list_and_still_leads_on),
        SCOPE(threads_may_allocate_while_their_context_is_closed_again_and_again),
    };
    return cmocka_run_group_tests(tests, begin, NULL);
}
