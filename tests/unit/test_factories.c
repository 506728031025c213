/* core/factories.c: every published factory is owned from the plugin's OK on and released exactly once. */
#include "core/factories.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The plugin of these tests publishes these slots and counts what is given back. */
static struct {
    const NxmemAllocatorFactoryVtable *slots[NXM_FACTORIES_MAX];
    uint64_t count;
    uint32_t status;
    uint64_t max_seen, count_seen;
    unsigned slots_seen_set;
    unsigned released[NXM_FACTORIES_MAX + 1]; /* by ctx */
} plugin;

static NxmemAllocatorFactoryVtable tables[NXM_FACTORIES_MAX + 1];
static struct nxm_factories *taken;

static NxmemStatus open_allocator(void *ctx, const NxmemOpenRequest *request, const NxmemAllocatorVtable **vtable)
{
    (void)ctx;
    (void)request;
    (void)vtable;
    return (NxmemStatus){ 0 };
}

static void release(void *ctx)
{
    plugin.released[(uintptr_t)ctx]++;
}

static NxmemStatus create(const NxmemAllocatorFactoryVtable **factories, uint64_t max_factories, uint64_t *count)
{
    plugin.max_seen = max_factories;
    plugin.count_seen = *count;
    for (size_t i = 0; i < max_factories; i++)
        plugin.slots_seen_set += factories[i] != NULL;
    memcpy(factories, plugin.slots, sizeof plugin.slots);
    *count = plugin.count;
    return (NxmemStatus){ .code = plugin.status };
}

static void publish(size_t slots, uint64_t count)
{
    for (size_t i = 0; i < slots; i++)
        plugin.slots[i] = &tables[i];
    plugin.count = count;
}

static int fresh(void **state)
{
    (void)state;
    memset(&plugin, 0, sizeof plugin);
    for (size_t i = 0; i <= NXM_FACTORIES_MAX; i++) {
        tables[i] = (NxmemAllocatorFactoryVtable){
            .struct_size = sizeof tables[i],
            .abi_minor = 1,
            .name = (const uint8_t *)"mechanism",
            .device = { NXMEM_TIER_DEVICE, (uint32_t)i },
            .capability_flags = NXMEM_CAPABILITY_ALLOCATOR,
            .ctx = (void *)i,
            .open_allocator = open_allocator,
            .release = release,
        };
    }
    free(taken);
    taken = malloc(sizeof *taken);
    return 0;
}

static int done(void **state)
{
    (void)state;
    free(taken);
    taken = NULL;
    return 0;
}

static int take(struct nxm_error *ret_error)
{
    return nxm_factories_take(create, 1, taken, ret_error);
}

/* Entries [from, to) were released `times` times. */
static void assert_released(size_t from, size_t to, unsigned times)
{
    for (size_t i = from; i < to; i++)
        assert_int_equal(plugin.released[i], times);
}

static void the_plugin_gets_64_empty_slots(void **state)
{
    (void)state;
    publish(1, 1);
    assert_int_equal(take(NULL), NXM_OK);
    assert_int_equal(plugin.max_seen, 64);
    assert_int_equal(plugin.count_seen, 0);
    assert_int_equal(plugin.slots_seen_set, 0);
}

static void what_is_accepted_is_kept_and_copied(void **state)
{
    (void)state;
    publish(3, 3);
    assert_int_equal(take(NULL), NXM_OK);
    assert_int_equal(taken->count, 3);
    assert_int_equal(taken->list[2].vtable.device.index, 2);
    assert_string_equal(taken->list[2].name, "mechanism");
    memset(tables, 0, sizeof tables); /* the copy is all that is used later */
    assert_ptr_equal(taken->list[0].vtable.open_allocator, open_allocator);
    assert_released(0, 3, 0);
}

static void unknown_capability_bits_are_left_out(void **state)
{
    (void)state;
    publish(1, 1);
    tables[0].capability_flags = NXMEM_CAPABILITY_KNOWN_MASK | UINT64_C(1) << 5 | UINT64_C(1) << 63;
    assert_int_equal(take(NULL), NXM_OK); /* they are information: no reason to refuse */
    assert_int_equal(taken->list[0].vtable.capability_flags, NXMEM_CAPABILITY_KNOWN_MASK);
}

static void all_64_slots_may_be_used(void **state)
{
    (void)state;
    publish(64, 64);
    assert_int_equal(take(NULL), NXM_OK);
    assert_int_equal(taken->count, 64);
}

static void no_factories_at_all_are_legal(void **state)
{
    (void)state;
    assert_int_equal(take(NULL), NXM_OK);
    assert_int_equal(taken->count, 0);
}

static void a_failing_status_transfers_nothing(void **state)
{
    struct nxm_error error;

    (void)state;
    publish(4, 4);
    plugin.status = NXMEM_STATUS_DEVICE_ERROR;
    assert_int_equal(take(&error), NXM_ECALL);
    assert_int_equal(error.status, NXMEM_STATUS_DEVICE_ERROR);
    assert_released(0, 4, 0);
}

static void slots_past_the_count_are_released(void **state)
{
    (void)state;
    publish(10, 4);
    assert_int_equal(take(NULL), NXM_OK);
    assert_int_equal(taken->count, 4);
    assert_released(0, 4, 0);
    assert_released(4, 10, 1);
}

static void a_count_above_64_is_refused_and_every_slot_released(void **state)
{
    (void)state;
    publish(64, 65);
    assert_int_equal(take(NULL), NXM_ECONTRACT);
    assert_int_equal(taken->count, 0);
    assert_released(0, 64, 1);
    fresh(NULL);
    publish(2, UINT64_MAX);
    assert_int_equal(take(NULL), NXM_ECONTRACT);
    assert_released(0, 2, 1);
}

static void one_fault_releases_all_transferred_factories_once(void **state)
{
    (void)state;
    for (size_t faulty = 0; faulty < 19; faulty++) {
        fresh(NULL);
        publish(21, 19); /* accepted prefix, the faulty one, unvisited suffix, two past the count */
        tables[faulty].open_allocator = NULL;
        assert_int_equal(take(NULL), NXM_ECALL);
        assert_int_equal(taken->count, 0);
        assert_released(0, 21, 1);
    }
}

static void a_hole_inside_the_count_is_refused(void **state)
{
    struct nxm_error error;

    (void)state;
    publish(3, 3);
    plugin.slots[1] = NULL;
    assert_int_equal(take(&error), NXM_ECALL);
    assert_int_equal(error.status, NXMEM_STATUS_INVALID_ARGUMENT);
    assert_int_equal(plugin.released[0], 1);
    assert_int_equal(plugin.released[2], 1);
}

static void a_pointer_listed_twice_is_one_factory_and_one_release(void **state)
{
    (void)state;
    publish(3, 3);
    plugin.slots[1] = &tables[0];
    assert_int_equal(take(NULL), NXM_OK);
    assert_int_equal(taken->count, 2);
    assert_released(0, 3, 0);
    fresh(NULL);
    publish(3, 3);
    plugin.slots[1] = &tables[0];
    tables[2].open_allocator = NULL;
    assert_int_equal(take(NULL), NXM_ECALL);
    assert_int_equal(plugin.released[0], 1);
    assert_int_equal(plugin.released[2], 1);
}

static void an_accepted_pointer_listed_again_past_the_count_is_not_released(void **state)
{
    (void)state;
    publish(1, 1);
    plugin.slots[5] = &tables[0];
    assert_int_equal(take(NULL), NXM_OK);
    assert_int_equal(plugin.released[0], 0);
}

static void an_unreadable_entry_is_not_entered_and_the_others_are_released(void **state)
{
    uint32_t *shorter = malloc(8); /* exact: its `release` does not exist */

    (void)state;
    publish(4, 4);
    shorter[0] = 8;
    shorter[1] = 1;
    plugin.slots[1] = (void *)shorter;
    plugin.slots[2] = (void *)((char *)&tables[2] + 4); /* misaligned */
    assert_int_equal(take(NULL), NXM_ECALL);
    assert_int_equal(plugin.released[0], 1);
    assert_int_equal(plugin.released[3], 1);
    free(shorter);
}

static void an_entry_without_release_is_left_and_the_others_are_released(void **state)
{
    (void)state;
    publish(3, 3);
    tables[1].release = NULL;
    assert_int_equal(take(NULL), NXM_ECALL);
    assert_int_equal(plugin.released[0], 1);
    assert_int_equal(plugin.released[1], 0);
    assert_int_equal(plugin.released[2], 1);
}

static void an_unknown_tier_is_refused(void **state)
{
    (void)state;
    publish(2, 2);
    tables[1].device.tier = NXMEM_TIER_DISK + 1;
    assert_int_equal(take(NULL), NXM_ECONTRACT);
    assert_released(0, 2, 1);
}

static void names_must_be_there_terminated_and_utf8(void **state)
{
    uint8_t *unterminated = malloc(NXM_NAME_CAPACITY); /* exact */
    char longest[NXM_NAME_CAPACITY];
    const uint8_t *bad[3];

    (void)state;
    memset(unterminated, 'n', NXM_NAME_CAPACITY);
    bad[0] = NULL;
    bad[1] = unterminated;
    bad[2] = (const uint8_t *)"\xFF";
    for (size_t i = 0; i < 3; i++) {
        memset(plugin.released, 0, sizeof plugin.released);
        publish(1, 1);
        tables[0].name = bad[i];
        assert_int_equal(take(NULL), NXM_ECONTRACT);
        assert_int_equal(plugin.released[0], 1);
    }
    free(unterminated);
    memset(longest, 'n', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    tables[0].name = (const uint8_t *)longest;
    assert_int_equal(take(NULL), NXM_OK);
    tables[0].name = (const uint8_t *)"";
    assert_int_equal(take(NULL), NXM_OK); /* empty is accepted */
}

static void a_factory_is_released_with_its_last_reference(void **state)
{
    (void)state;
    publish(1, 1);
    assert_int_equal(take(NULL), NXM_OK);
    nxm_factory_ref(&taken->list[0]);
    assert_false(nxm_factory_unref(&taken->list[0]));
    assert_int_equal(plugin.released[0], 0);
    assert_true(nxm_factory_unref(&taken->list[0]));
    assert_int_equal(plugin.released[0], 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fresh, done)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_plugin_gets_64_empty_slots),
        TEST(what_is_accepted_is_kept_and_copied),
        TEST(unknown_capability_bits_are_left_out),
        TEST(all_64_slots_may_be_used),
        TEST(no_factories_at_all_are_legal),
        TEST(a_failing_status_transfers_nothing),
        TEST(slots_past_the_count_are_released),
        TEST(a_count_above_64_is_refused_and_every_slot_released),
        TEST(one_fault_releases_all_transferred_factories_once),
        TEST(a_hole_inside_the_count_is_refused),
        TEST(a_pointer_listed_twice_is_one_factory_and_one_release),
        TEST(an_accepted_pointer_listed_again_past_the_count_is_not_released),
        TEST(an_unreadable_entry_is_not_entered_and_the_others_are_released),
        TEST(an_entry_without_release_is_left_and_the_others_are_released),
        TEST(an_unknown_tier_is_refused),
        TEST(names_must_be_there_terminated_and_utf8),
        TEST(a_factory_is_released_with_its_last_reference),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
