/* core/leaks: what counts, what belongs together, what comes first, and that one walk gives all of it. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/mem.h"
#include "core/report.h"
#include "core/result.h"
#include "core/suppressions.h"
#include "support/json.h"
#include "support/reporting.h"

/* --- grouping ------------------------------------------------------------------------------------------------- */

static void blocks_group_by_stack_class_api_and_device(void **state)
{
    struct reporting *f = *state;
    uint32_t a = stack_through_qsort(), b = stack_through_the_loader();
    char *json;

    reporting_add(f, NXM_CLASS_DEVICE, 100, 1, 0, a);
    reporting_add(f, NXM_CLASS_DEVICE, 100, 1, 0, a); /* the only two that belong together */
    reporting_add(f, NXM_CLASS_DEVICE, 100, 1, 0, b);
    reporting_add(f, NXM_CLASS_DEVICE, 100, 2, 0, a);
    reporting_add(f, NXM_CLASS_DEVICE, 100, 1, 1, a);
    reporting_add(f, NXM_CLASS_MANAGED, 100, 1, 0, a);
    json = reporting_written(f, NXM_REPORT_JSON, NXM_OK);
    json_assert(json);
    assert_int_equal(json_number(json, "\"leaked\"", "blocks"), 6);
    assert_int_equal(json_number(json, "\"leaked\"", "bytes"), 600);
    free(json);
    reporting_assert_line(f, "LEAK: 6 blocks, 600 B in 5 places");
    reporting_assert_line(f, "200 B in 2 blocks, device 0, cudaMalloc");
}

static void places_come_by_bytes_then_blocks_then_age(void **state)
{
    struct reporting *f = *state;
    static const char *const expected[] = { "\n1023 B in 1 block, device 5", "\n1000 B in 1 block, device 4", "\n300 B in 3 blocks, device 3",
                                            "\n300 B in 2 blocks, device 2", "\n300 B in 1 block, device 6", "\n300 B in 1 block, device 7" };
    char *text;
    const char *at;

    reporting_add(f, NXM_CLASS_DEVICE, 300, 1, 6, 0);
    reporting_add(f, NXM_CLASS_DEVICE, 300, 1, 7, 0);
    reporting_add(f, NXM_CLASS_DEVICE, 150, 1, 2, 0);
    reporting_add(f, NXM_CLASS_DEVICE, 150, 1, 2, 0);
    for (int i = 0; i < 3; i++)
        reporting_add(f, NXM_CLASS_DEVICE, 100, 1, 3, 0);
    reporting_add(f, NXM_CLASS_DEVICE, 1000, 1, 4, 0);
    reporting_add(f, NXM_CLASS_DEVICE, 1023, 1, 5, 0);
    text = reporting_written(f, NXM_REPORT_TEXT, NXM_OK);
    at = text;
    for (int i = 0; i < 6; i++) {
        at = strstr(at, expected[i]);
        assert_non_null(at);
    }
    free(text);
}

static void places_alike_come_by_their_oldest_block(void **state)
{
    static const int devices[] = { 3, 4, 4, 3 };
    struct reporting *f = *state;
    char *text;

    for (int i = 0; i < 4; i++)
        reporting_add(f, NXM_CLASS_DEVICE, 100, 1, devices[i], 0);
    text = reporting_written(f, NXM_REPORT_TEXT, NXM_OK);
    assert_non_null(strstr(text, "device 3"));
    assert_non_null(strstr(strstr(text, "device 3"), "device 4"));
    free(text);
}

static void only_live_blocks_of_leaking_classes_are_leaks(void **state)
{
    struct reporting *f = *state;
    struct nxm_block a = reporting_add(f, NXM_CLASS_DEVICE, 100, 1, 0, 0), b = reporting_add(f, NXM_CLASS_DEVICE, 10, 1, 0, 0);
    char *json;

    reporting_add(f, NXM_CLASS_VMM_MAPPED, 1000, 1, 0, 0);
    reporting_add(f, NXM_CLASS_REGISTERED, 1000, 1, 0, 0);
    reporting_add(f, NXM_CLASS_NATIVE, 1, 1, 0, 0);
    nxm_blocks_claim(f->table, a.address, 0, NXM_BLOCK_LIVE, NXM_BLOCK_WAITING, NULL);
    nxm_blocks_claim(f->table, b.address, 0, NXM_BLOCK_LIVE, NXM_BLOCK_RELEASING, NULL);
    f->report.reclaimed_by_reset = (struct nxm_amount){ 9, 900 };
    assert_int_equal(nxm_report_leaks(&f->report), 1);
    json = reporting_written(f, NXM_REPORT_JSON, NXM_OK);
    assert_int_equal(json_number(json, "\"leaked\"", "bytes"), 1);
    assert_int_equal(json_number(json, "\"waiting\"", "blocks"), 2);
    assert_int_equal(json_number(json, "\"waiting\"", "bytes"), 110);
    assert_int_equal(json_number(json, "\"VMM_MAPPED\"", "live_bytes"), 1000);
    free(json);
}

static void several_tables_make_one_report(void **state)
{
    struct reporting *f = *state, other = { 0 };
    struct nxm_blocks *tables[2];
    char *json;

    assert_int_equal(nxm_blocks_new(&other.table), NXM_OK);
    tables[0] = f->table;
    tables[1] = other.table;
    f->report.tables = tables;
    f->report.table_count = 2;
    reporting_add(f, NXM_CLASS_DEVICE, 100, 1, 0, 0);
    reporting_add(&other, NXM_CLASS_DEVICE, 11, 1, 0, 0);
    json = reporting_written(f, NXM_REPORT_JSON, NXM_OK);
    assert_int_equal(json_number(json, "\"leaked\"", "bytes"), 111);
    assert_int_equal(json_number(json, "\"DEVICE\"", "ever_blocks"), 2);
    assert_int_equal(nxm_report_leaks(&f->report), 2);
    nxm_blocks_free(other.table);
    free(json);
}

static struct nxm_suppressions *suppressing(const char *rule)
{
    struct nxm_suppressions *suppressions = NULL;
    char path[] = "/tmp/nxm-report-XXXXXX";
    int file = mkstemp(path);

    assert_int_equal(write(file, rule, strlen(rule)), (ssize_t)strlen(rule));
    close(file);
    assert_int_equal(nxm_suppressions_load(path, &suppressions), NXM_OK);
    unlink(path);
    return suppressions;
}

static void suppressed_places_are_summed_and_are_no_leaks(void **state)
{
    struct reporting *f = *state;
    struct nxm_suppressions *suppressions = suppressing("leak:^dl_iterate_phdr$\n");
    char *json;

    reporting_add(f, NXM_CLASS_DEVICE, 5000, 1, 0, stack_through_the_loader());
    reporting_add(f, NXM_CLASS_DEVICE, 100, 1, 0, stack_through_qsort());
    assert_int_equal(nxm_report_leaks(&f->report), 2);
    f->report.suppressions = suppressions;
    assert_int_equal(nxm_report_leaks(&f->report), 1);
    reporting_assert_line(f, "LEAK: 1 block, 100 B in 1 place");
    reporting_assert_line(f, "suppressed          1 block, 4.88 KiB in 1 place");
    json = reporting_written(f, NXM_REPORT_JSON, NXM_OK);
    assert_int_equal(json_number(json, "\"suppressed\"", "bytes"), 5000);
    assert_null(strstr(json, "dl_iterate_phdr"));
    free(json);

    nxm_mem_fail_at(1); /* ungrouped, they are told apart all the same */
    assert_int_equal(nxm_report_leaks(&f->report), 1);
    nxm_suppressions_free(suppressions);
}

/* --- consistency while threads allocate ------------------------------------------------------------------------------ */

static struct {
    struct nxm_blocks *table;
    atomic_bool stop;
    atomic_int running;
} churn;

static void *allocate_and_free(void *argument)
{
    uint64_t base = REPORTING_BASE + ((uint64_t)(uintptr_t)argument + 1) * (UINT64_C(1) << 32);

    for (uint64_t i = 0; !atomic_load(&churn.stop); i++) {
        struct nxm_block block = { .address = base + i % 500 * 4096, .bytes = 1 + i % 1000, .id = nxm_block_next_id(),
                                   .device = (int32_t)(i % 7), .class_ = NXM_CLASS_DEVICE, .state = NXM_BLOCK_LIVE }, old;

        if (nxm_blocks_find(churn.table, block.address, &old) == NXM_OK)
            nxm_blocks_remove(churn.table, old.address, old.id);
        nxm_blocks_insert(churn.table, &block);
        if (i == 0)
            atomic_fetch_add(&churn.running, 1);
    }
    return NULL;
}

static void a_report_agrees_with_itself_while_threads_allocate(void **state)
{
    struct reporting *f = *state;
    pthread_t threads[2];

    churn.table = f->table;
    atomic_store(&churn.stop, false);
    atomic_store(&churn.running, 0);
    for (uintptr_t i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, allocate_and_free, (void *)i), 0);
    while (atomic_load(&churn.running) < 2) {
    }
    for (int i = 0; i < 50; i++) {
        char *json = reporting_written(f, NXM_REPORT_JSON, NXM_OK);
        uint64_t bytes = 0, blocks = 0;

        json_assert(json);
        for (const char *at = json; (at = strstr(at, "\n    {\"bytes\": ")) != NULL; at++) {
            bytes += json_number(at, "{", "bytes");
            blocks += json_number(at, "{", "blocks");
        }
        assert_int_equal(json_number(json, "\"leaked\"", "bytes"), bytes);
        assert_int_equal(json_number(json, "\"leaked\"", "blocks"), blocks);
        assert_int_equal(json_number(json, "\"DEVICE\"", "live_bytes"), bytes);
        assert_true(json_number(json, "\"DEVICE\"", "peak_bytes") > 0);
        free(json);
    }
    atomic_store(&churn.stop, true);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

#define reported(test) cmocka_unit_test_setup_teardown(test, reporting_setup, reporting_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        reported(blocks_group_by_stack_class_api_and_device),
        reported(places_come_by_bytes_then_blocks_then_age),
        reported(places_alike_come_by_their_oldest_block),
        reported(only_live_blocks_of_leaking_classes_are_leaks),
        reported(several_tables_make_one_report),
        reported(suppressed_places_are_summed_and_are_no_leaks),
        reported(a_report_agrees_with_itself_while_threads_allocate),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
