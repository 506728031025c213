/* The host library under eight threads and the `host` plugin: blocks, queued releases, drains, statistics, attempts to unload, a
 * provider context. What is wrong is seen by the counts, and by ThreadSanitizer. */
#include "nxmem_host.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define THREADS 8
#define ROUNDS 400

static nxmem_host_plugin *plugin;
static nxmem_host_allocator *allocator;
static nxmem_host_provider *provider;
static atomic_uint completions, queued, failures, busy;

static void completed(void *owner, const nxmem_host_block *block, const nxmem_host_release_result *result)
{
    (void)owner;
    (void)block;
    atomic_fetch_add(&completions, 1);
    if (result->outcome != NXMEM_HOST_COMPLETE)
        atomic_fetch_add(&failures, 1);
}

static void expect(int condition)
{
    if (!condition)
        atomic_fetch_add(&failures, 1);
}

static void one_block(unsigned round)
{
    nxmem_host_release_result result = NXMEM_HOST_SIZED(nxmem_host_release_result);
    nxmem_host_block block = NXMEM_HOST_SIZED(nxmem_host_block);
    uint64_t bytes = 64 + round % 7 * 512;

    expect(nxmem_host_allocate(allocator, bytes, 256, &block, NULL) == NXMEM_HOST_OK);
    memset(block.address, (int)round, bytes);
    if (round % 3 == 0) {
        expect(nxmem_host_release(allocator, block.address, bytes, 256, &result, NULL) == NXMEM_HOST_OK);
        return;
    }
    expect(nxmem_host_enqueue(allocator, block.address, bytes, 256, &result, NULL) == NXMEM_HOST_OK);
    atomic_fetch_add(&queued, 1);
    expect(nxmem_host_release(allocator, block.address, bytes, 512, NULL, NULL) != NXMEM_HOST_OK); /* never that shape */
}

static void *work(void *argument)
{
    nxmem_host_statistics statistics = NXMEM_HOST_SIZED(nxmem_host_statistics);
    unsigned self = *(const unsigned *)argument;

    for (unsigned round = 0; round < ROUNDS; round++) {
        one_block(self + round);
        if (round % 5 == self % 5)
            expect(nxmem_host_drain(allocator, 3, NULL, NULL) == NXMEM_HOST_OK);
        if (round % 50 == self) {
            nxmem_host_statistics_of(allocator, &statistics);
            expect(statistics.live_blocks <= THREADS * ROUNDS && statistics.queued <= THREADS * ROUNDS);
            atomic_fetch_add(&busy, nxmem_host_unload(&plugin, NULL, NULL) == NXMEM_HOST_BUSY);
        }
    }
    return NULL;
}

static void the_books_come_out_even_whatever_the_threads_do(void **state)
{
    nxmem_host_options options = NXMEM_HOST_SIZED(nxmem_host_options);
    nxmem_host_statistics statistics = NXMEM_HOST_SIZED(nxmem_host_statistics);
    nxmem_host_counters counters = NXMEM_HOST_SIZED(nxmem_host_counters);
    unsigned numbers[THREADS];
    pthread_t threads[THREADS];

    (void)state;
    assert_int_equal(nxmem_host_load(HOST_PLUGIN, NULL, &plugin, NULL), NXMEM_HOST_OK);
    assert_int_equal(nxmem_host_provider_new(&provider, NULL), NXMEM_HOST_OK);
    options.completed = completed;
    options.provider = provider;
    assert_int_equal(nxmem_host_open(plugin, 0, &options, &allocator, NULL), NXMEM_HOST_OK);
    for (unsigned i = 0; i < THREADS; i++) {
        numbers[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, work, &numbers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&failures), 0);
    assert_int_equal(atomic_load(&busy), THREADS * (ROUNDS / 50)); /* an open allocator refuses every attempt */
    nxmem_host_drain(allocator, UINT64_MAX, NULL, NULL);
    nxmem_host_statistics_of(allocator, &statistics);
    assert_int_equal(statistics.live_blocks, 0);
    assert_int_equal(statistics.live_bytes, 0);
    assert_int_equal(statistics.owned_bytes, 0);
    assert_int_equal(statistics.queued, 0);
    assert_int_equal(statistics.ever_blocks, THREADS * ROUNDS);
    assert_int_equal(nxmem_host_provider_pins(provider), 0);
    assert_int_equal(atomic_load(&completions), atomic_load(&queued));
    nxmem_host_close(allocator);
    nxmem_host_provider_wait(provider);
    nxmem_host_provider_free(provider);
    assert_int_equal(nxmem_host_unload(&plugin, NULL, NULL), NXMEM_HOST_OK);
    nxmem_host_counters_now(&counters);
    assert_int_equal(counters.leaked_tables, 0);
    assert_int_equal(counters.modules_unmapped, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(the_books_come_out_even_whatever_the_threads_do) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
