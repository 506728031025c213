/* The host library when memory runs out, at each of its requests in turn: every failure is said, and nothing is lost. It needs core's
 * own hook for that, so it is linked with the library's objects. */
#include "nxmem_host.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "core/mem.h"
#include "tests/unit/support/fake.h"
#include "tests/unit/support/fake_map.h"

#define BYTES (16 * UINT64_C(4096))
#define REQUESTS 120

static unsigned refusals;

/* 1 when it succeeded; otherwise it must have been for want of memory. */
static int went_well(int result, const nxmem_host_error *error)
{
    if (result == NXMEM_HOST_OK)
        return 1;
    assert_int_equal(result, NXMEM_HOST_MEMORY);
    assert_int_equal(error->code, NXMEM_HOST_MEMORY);
    assert_int_equal(error->status, 0); /* ours, not the plugin's */
    refusals++;
    return 0;
}

static void live(nxmem_host_allocator *allocator)
{
    const NxmemByteRange ranges[] = { { 0, 4096 }, { 8192, 4096 } };
    nxmem_host_block blocks[5] = { NXMEM_HOST_SIZED(nxmem_host_block) };
    nxmem_host_error error = NXMEM_HOST_SIZED(nxmem_host_error);
    nxmem_host_prefix *prefix = NULL;
    uint64_t mapped;

    for (int i = 0; i < 5; i++) {
        blocks[i] = NXMEM_HOST_SIZED(nxmem_host_block);
        went_well(nxmem_host_allocate_committed(allocator, BYTES, 256, ranges, 2, &blocks[i], &error), &error);
    }
    if (blocks[0].address != NULL)
        went_well(nxmem_host_cost(allocator, blocks[0].address, BYTES, 256, ranges, 2, &mapped, &error), &error);
    if (went_well(nxmem_host_prefix_new(allocator, 4096, &prefix, &error), &error) && blocks[0].address != NULL)
        went_well(nxmem_host_prefix_commit(allocator, prefix, blocks[0].address, BYTES, 0, NULL, &error), &error);
    fake.release = (struct fake_answer){ .set = true, .state = NXMEM_RELEASE_QUARANTINED, .residual = 1 };
    if (blocks[1].address != NULL) /* without memory for the span it bars more than it must */
        assert_int_equal(nxmem_host_release(allocator, blocks[1].address, BYTES, 256, NULL, &error), NXMEM_HOST_OK);
    fake.release.set = false;
    for (int i = 2; i < 5; i++) {
        if (blocks[i].address != NULL)
            went_well(nxmem_host_enqueue(allocator, blocks[i].address, BYTES, 256, NULL, &error), &error);
    }
    nxmem_host_prefix_free(prefix);
}

static void one_life(void)
{
    nxmem_host_options options = NXMEM_HOST_SIZED(nxmem_host_options);
    nxmem_host_error error = NXMEM_HOST_SIZED(nxmem_host_error);
    nxmem_host_allocator *allocator = NULL;
    nxmem_host_provider *provider = NULL;
    nxmem_host_plugin *plugin = NULL;

    if (!went_well(nxmem_host_load(UNIT_DIR "/plugins/fake.so", NULL, &plugin, &error), &error))
        return;
    if (went_well(nxmem_host_provider_new(&provider, &error), &error))
        options.provider = provider;
    if (went_well(nxmem_host_open(plugin, 0, &options, &allocator, &error), &error))
        live(allocator);
    nxmem_host_close(allocator);
    if (provider != NULL)
        assert_int_equal(nxmem_host_provider_pins(provider), 0);
    nxmem_host_provider_free(provider);
    assert_int_equal(nxmem_host_unload(&plugin, NULL, &error), NXMEM_HOST_OK);
}

static void whichever_request_fails_nothing_is_lost(void **state)
{
    nxmem_host_counters counters = NXMEM_HOST_SIZED(nxmem_host_counters);
    unsigned failed_at_all = 0;

    (void)state;
    nxmem_host_say_less(1);
    for (unsigned n = 1; n <= REQUESTS; n++) {
        fake_reset();
        fake.maps = true;
        fake.extra_flags = NXMEM_CAPABILITY_KNOWN_MASK;
        refusals = 0;
        nxm_mem_fail_at(n);
        one_life();
        nxm_mem_fail_at(0);
        failed_at_all += refusals;
        assert_true(refusals <= 1);
        assert_int_equal(fake.releases, fake.opens);
        assert_int_equal(fake.live, 0);
        assert_int_equal(fake.queued, 0);
        assert_int_equal(fake_map.views, 0);
        assert_int_equal(fake_map.handles, 0);
        assert_int_equal(fake.unmapped, 1);
    }
    fake_reset();
    nxmem_host_counters_now(&counters);
    assert_int_equal(counters.leaked_tables, 0);
    assert_int_equal(counters.forced_leaks, 0);
    assert_true(failed_at_all >= 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(whichever_request_fails_nothing_is_lost) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
