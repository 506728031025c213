/* core/report: the text that docs/report.md promises, line by line; the JSON form by its numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/report.h"
#include "core/result.h"
#include "core/stack.h"
#include "support/json.h"
#include "support/reporting.h"

/* --- the text --------------------------------------------------------------------------------------------------- */

static void the_whole_text_is_as_documented(void **state)
{
    struct reporting *f = *state;
    struct nxm_block waiting;
    char *text;

    reporting_add(f, NXM_CLASS_DEVICE, 1 << 19, 1, 0, 0);
    reporting_add(f, NXM_CLASS_DEVICE, 1 << 19, 1, 0, 0);
    reporting_add(f, NXM_CLASS_PINNED, 1 << 19, 3, -1, 0);
    waiting = reporting_add(f, NXM_CLASS_DEVICE, 4096, 2, 0, 0);
    assert_int_equal(nxm_blocks_claim(f->table, waiting.address, 0, NXM_BLOCK_LIVE, NXM_BLOCK_WAITING, NULL), NXM_OK);
    reporting_add(f, NXM_CLASS_VMM_RESERVED, UINT64_C(1) << 30, 0, 0, 0);
    reporting_add(f, NXM_CLASS_VMM_CREATED, 2 << 20, 0, 0, 0);
    f->report.gate_known = 1;
    f->report.gate = (struct nxm_gate){ .reason = NXM_GATE_HOST, .handle_kept = true, .host = { 1, 2, 0, 0 }, .plugin = { .live_views = 1 } };
    f->report.waiting_peak_bytes = 9 << 20;
    f->report.note = "2 entry points of this driver are not covered";
    text = reporting_written(f, NXM_REPORT_TEXT, NXM_OK);
    assert_string_equal(text,
        "nxmem 1.2.3: report of /usr/bin/app, pid 42, plugin /opt/nxmem/direct.so, mechanism cuda-direct\n"
        "LEAK: 3 blocks, 1.50 MiB in 2 places\n"
        "\n"
        "1 MiB in 2 blocks, device 0, cudaMalloc\n"
        "    (no call stack was kept)\n"
        "\n"
        "512 KiB in 1 block, cudaMallocHost, pinned host\n"
        "    (no call stack was kept)\n"
        "\n"
        "device              live 3 blocks, 1.00 MiB; peak 1.00 MiB; in all 3 blocks, 1.00 MiB\n"
        "pinned host         live 1 block, 512 KiB; peak 512 KiB; in all 1 block, 512 KiB\n"
        "program's own VMM   reserved 1 GiB in 1 range (peak 1 GiB); created 2 MiB in 1 handle (peak 2 MiB); "
        "mapped 0 B in 0 mappings (peak 0 B)\n"
        "waiting             1 block, 4 KiB: freed by the program, not yet by its owner\n"
        "waiting at most     9 MiB at a time\n"
        "unload gate         plugin kept mapped: 2 blocks, 1 view\n"
        "note                2 entry points of this driver are not covered\n");
    free(text);
}

static void a_refused_free_is_told_with_its_block(void **state)
{
    struct reporting *f = *state;
    const struct nxm_misuse noted[] = {
        { .kind = NXM_MISUSE_TWICE, .count = 3, .address = 0x7f00, .bytes = 4096, .api = 1, .freed = 77 },
        { .kind = NXM_MISUSE_NOT_ALLOCATED, .count = 1, .address = 0x10, .api = -1 },
        { .kind = NXM_MISUSE_INSIDE, .count = 1, .address = 0x20, .bytes = 1, .api = 999 },
    };
    char *text;

    f->report.misuse = 5;
    f->report.misuses = noted;
    f->report.misuse_count = 3;
    f->report.gate_known = 1;
    text = reporting_written(f, NXM_REPORT_TEXT, NXM_OK);
    assert_string_equal(text,
        "nxmem 1.2.3: report of /usr/bin/app, pid 42, plugin /opt/nxmem/direct.so, mechanism cuda-direct\n"
        "no leaks\n"
        "\n"
        "MISUSE: free of 0x7f00 refused: freed twice; 3 times\n"
        "    (no call stack was kept)\n"
        "  it had been freed\n"
        "    (no call stack was kept)\n"
        "  of a block of 4 KiB, cudaMalloc\n"
        "    (no call stack was kept)\n"
        "\n"
        "MISUSE: free of 0x10 refused: not allocated\n"
        "    (no call stack was kept)\n"
        "\n"
        "MISUSE: free of 0x20 refused: inside a block\n"
        "    (no call stack was kept)\n"
        "  of a block of 1 B, unknown call\n"
        "    (no call stack was kept)\n"
        "\n"
        "misuse              5 frees answered with an error (double, foreign or interior)\n"
        "unload gate         plugin unloaded\n");
    free(text);
}

static const char *const few[] = { "cuMemAllocLater", "cuMemFreeLater" };
static const char *const many[] = { "cuMemAllocOfALongName1", "cuMemAllocOfALongName2", "cuMemAllocOfALongName3",
                                    "cuMemAllocOfALongName4", "cuMemAllocOfALongName5" };
static const struct nxm_coverage covered = { .hooked = { many, 5 }, .passed = { NULL, 0 }, .unknown = { few, 2 } };

static void names_that_are_out_of_sight_are_told(void **state)
{
    struct reporting *f = *state;
    char *text;

    f->report.gate_known = 1;
    f->report.unknown = (struct nxm_names){ few, 2 };
    f->report.uncovered = (struct nxm_names){ few, 1 };
    f->report.coverage = &covered;
    text = reporting_written(f, NXM_REPORT_TEXT, NXM_OK);
    assert_string_equal(strstr(text, "unload gate"),
        "unload gate         plugin unloaded\n"
        "unknown names       cuMemAllocLater, cuMemFreeLater: what is allocated through them is not seen\n"
        "uncovered           cuMemAllocLater: calls from there are not seen\n"
        "coverage            resolved: 5 hooked, 0 passed on, 2 unknown to this version\n"
        "    hooked   cuMemAllocOfALongName1 cuMemAllocOfALongName2 cuMemAllocOfALongName3 cuMemAllocOfALongName4\n"
        "             cuMemAllocOfALongName5\n"
        "    unknown  cuMemAllocLater cuMemFreeLater\n");
    free(text);
}

static void what_the_driver_says_of_memory_stands_beside_what_is_recorded(void **state)
{
    static const struct nxm_device_memory memory[] = { { 0, 400 << 20, 100 << 20 }, { 3, 1 << 20, 2 << 20 } };
    struct reporting *f = *state;
    char *text;

    f->report.gate_known = 1;
    f->report.device_memory = memory;
    f->report.device_memory_count = 2;
    text = reporting_written(f, NXM_REPORT_TEXT, NXM_OK);
    assert_non_null(strstr(text,
        "device memory       400 MiB of device 0 in use when the driver was last asked: 100 MiB in blocks, 300 MiB beside them\n"
        "device memory       1 MiB of device 3 in use when the driver was last asked: 2 MiB in blocks, 0 B beside them\n"));
    free(text);
    text = reporting_written(f, NXM_REPORT_JSON, NXM_OK);
    assert_non_null(strstr(text,
        "\"device_memory\": [{\"device\": 0, \"used\": 419430400, \"recorded\": 104857600, \"unexplained\": 314572800}, "
        "{\"device\": 3, \"used\": 1048576, \"recorded\": 2097152, \"unexplained\": 0}],\n"));
    free(text);
}

static void names_are_reason_enough_for_a_report(void **state)
{
    struct reporting *f = *state;

    f->report.gate_known = 1;
    assert_true(nxm_report_empty(&f->report));
    f->report.unknown = (struct nxm_names){ few, 1 };
    assert_false(nxm_report_empty(&f->report));
    f->report.unknown = (struct nxm_names){ NULL, 0 };
    f->report.coverage = &covered;
    assert_false(nxm_report_empty(&f->report));
}

static void json_carries_names_and_refused_frees(void **state)
{
    struct reporting *f = *state;
    const struct nxm_misuse noted[] = {
        { .kind = NXM_MISUSE_TWICE, .count = 3, .address = 0x7f00, .bytes = 4096, .api = 1, .freed = 77 },
        { .kind = NXM_MISUSE_OTHER_KIND, .count = 1, .api = -1 },
        { .kind = (enum nxm_misuse_kind)99, .count = 1, .api = -1 },
    };
    char *json;

    f->report.unknown = (struct nxm_names){ few, 2 };
    f->report.coverage = &covered;
    f->report.misuse = 5;
    f->report.misuses = noted;
    f->report.misuse_count = 3;
    json = reporting_written(f, NXM_REPORT_JSON, NXM_OK);
    json_assert(json);
    assert_non_null(strstr(json, "\"unknown_names\": [\"cuMemAllocLater\", \"cuMemFreeLater\"]"));
    assert_non_null(strstr(json, "\"passed\": []"));
    assert_non_null(strstr(json, "\"what\": \"freed twice\", \"count\": 3, \"address\": 32512"));
    assert_int_equal(json_number(json, "\"freed twice\"", "bytes"), 4096);
    assert_non_null(strstr(json, "\"api\": \"cudaMalloc\""));
    assert_non_null(strstr(json, "\"what\": \"unknown\""));
    free(json);
}

static void a_clean_run_says_so_and_shows_no_zero_line(void **state)
{
    struct reporting *f = *state;
    struct nxm_block block = reporting_add(f, NXM_CLASS_DEVICE, 1024, 1, 0, 0);
    char *text;

    assert_int_equal(nxm_blocks_remove(f->table, block.address, block.id), NXM_OK);
    f->report.gate_known = 1;
    text = reporting_written(f, NXM_REPORT_TEXT, NXM_OK);
    assert_string_equal(text,
        "nxmem 1.2.3: report of /usr/bin/app, pid 42, plugin /opt/nxmem/direct.so, mechanism cuda-direct\n"
        "no leaks\n"
        "\n"
        "device              live 0 blocks, 0 B; peak 1 KiB; in all 1 block, 1 KiB\n"
        "unload gate         plugin unloaded\n");
    free(text);
}

static void every_other_figure_has_its_line(void **state)
{
    struct reporting *f = *state;

    f->report.quarantined = (struct nxm_amount){ 1, 2048 };
    f->report.reclaimed_by_reset = (struct nxm_amount){ 2, 4096 };
    f->report.freed_during_exit = (struct nxm_amount){ 3, 1 };
    f->report.freed_out_of_sight = (struct nxm_amount){ 4, 2 };
    f->report.imported = (struct nxm_amount){ 5, 3 };
    f->report.unknown_frees = (struct nxm_amount){ 6, 0 };
    f->report.views = 7;
    f->report.misuse = 1;
    f->report.owned_bytes = 1024;
    f->report.mapped_bytes = 2048;
    f->report.counters.leaked_callback_tables = 1;
    f->report.counters.forced_module_leaks = 2;
    reporting_assert_line(f, "quarantined         1 block, 2 KiB: kept back by the plugin for good");
    reporting_assert_line(f, "reclaimed by reset  2 blocks, 4 KiB: live when their context went");
    reporting_assert_line(f, "freed during exit   3 blocks, 1 B: after the plugin's last moment");
    reporting_assert_line(f, "freed out of sight  4 blocks, 2 B: gone without a free that we saw");
    reporting_assert_line(f, "imports left open   5 blocks, 3 B");
    reporting_assert_line(f, "unknown frees       6 frees of an address that we never saw");
    reporting_assert_line(f, "views               7 shared prefix views in live blocks");
    reporting_assert_line(f, "misuse              1 free answered with an error (double, foreign or interior)");
    reporting_assert_line(f, "by the plugin       owned 1 KiB, mapped 2 KiB, for live blocks");
    reporting_assert_line(f, "leaked on purpose   1 callback table: a release it belongs to never completed");
    reporting_assert_line(f, "leaked on purpose   2 plugin modules: dropped while something lived in it");
}

static void a_figure_that_is_half_zero_still_has_its_line(void **state)
{
    struct reporting *f = *state;

    f->report.quarantined = (struct nxm_amount){ .bytes = 1 };
    reporting_assert_line(f, "quarantined         0 blocks, 1 B: kept back by the plugin for good");
    f->report.mapped_bytes = 2;
    reporting_assert_line(f, "by the plugin       owned 0 B, mapped 2 B, for live blocks");
}

static void a_program_whose_name_is_unknown_is_called_so(void **state)
{
    struct reporting *f = *state;

    f->report.program = NULL;
    reporting_assert_line(f, "nxmem 1.2.3: report of an unknown program, pid 42, plugin /opt/nxmem/direct.so, mechanism cuda-direct");
}

static void a_process_without_a_plugin_has_no_gate_line(void **state)
{
    struct reporting *f = *state;
    char *text;

    f->report.plugin = NULL;
    f->report.mechanism = NULL;
    text = reporting_written(f, NXM_REPORT_TEXT, NXM_OK);
    assert_true(reporting_has_line(text, "nxmem 1.2.3: report of /usr/bin/app, pid 42, no plugin"));
    assert_null(strstr(text, "unload gate"));
    free(text);
}

static void the_gate_line_names_what_held_the_plugin(void **state)
{
    struct reporting *f = *state;

    reporting_assert_line(f, "unload gate         not asked: only an orderly exit asks");
    f->report.gate_known = 1;
    f->report.gate_extra = "a thread was inside the shim";
    reporting_assert_line(f, "unload gate         plugin kept mapped: a thread was inside the shim");
    f->report.gate.reason = NXM_GATE_HOST;
    f->report.gate.host = (struct nxm_tallies){ .allocators = 2, .allocations = 0, .queued = 1 };
    reporting_assert_line(f, "unload gate         plugin kept mapped: 1 queued release; a thread was inside the shim");
    f->report.gate_extra = NULL;
    f->report.gate.host.queued = 0;
    reporting_assert_line(f, "unload gate         plugin kept mapped: 2 open allocators");
    f->report.gate.host = (struct nxm_tallies){ .inside = 1 };
    reporting_assert_line(f, "unload gate         plugin kept mapped: a thread of it was inside a callback");
    f->report.gate.host = (struct nxm_tallies){ .allocations = 1 };
    f->report.gate.plugin = (NxmemUnloadReport){ .live_views = UINT64_MAX }; /* made up: no sum may come to nothing */
    reporting_assert_line(f, "unload gate         plugin kept mapped: 1 block, 18446744073709551615 views");
    f->report.gate.reason = NXM_GATE_PLUGIN;
    f->report.gate.plugin = (NxmemUnloadReport){ .live_allocations = 1, .live_views = 2 };
    reporting_assert_line(f, "unload gate         plugin kept mapped: by its own count 1 block, 2 views");
    f->report.gate.plugin = (NxmemUnloadReport){ .live_allocators = 1, .live_capabilities = 2 };
    reporting_assert_line(f, "unload gate         plugin kept mapped: by its own count 1 open allocator");
    f->report.gate.plugin = (NxmemUnloadReport){ .live_capabilities = 2 };
    reporting_assert_line(f, "unload gate         plugin kept mapped: by its own count 2 live capability records");
    f->report.gate.reason = NXM_GATE_QUERY_FAILED;
    reporting_assert_line(f, "unload gate         plugin kept mapped: it could not say what is live in it");
    f->report.gate.reason = NXM_GATE_REFERENCED;
    reporting_assert_line(f, "unload gate         plugin kept mapped: something else still uses it");
    f->report.gate.reason = NXM_GATE_OPEN;
    f->report.gate.handle_kept = true;
    reporting_assert_line(f, "unload gate         plugin kept mapped: its handle was kept");
}

static void a_hostile_name_cannot_forge_a_line(void **state)
{
    struct reporting *f = *state;

    f->report.program = "/tmp/a\nno leaks\x1b[2J\x7f\n";
    f->report.note = "\n";
    f->report.mechanism = "";
    reporting_assert_line(f, "nxmem 1.2.3: report of /tmp/a?no leaks?[2J??, pid 42, plugin /opt/nxmem/direct.so");
    reporting_assert_line(f, "note                ?");
}

/* Out of a journal that is damaged. */
static void nor_can_the_name_of_a_call(void **state)
{
    static const char *const names[] = { "cu\x1b[2J\nno leaks" };
    const struct nxm_misuse misuse = { .kind = NXM_MISUSE_TWICE, .count = 1, .address = 0x7f00, .bytes = 4096, .api = 0 };
    struct reporting *f = *state;

    f->report.api_names = names;
    f->report.api_count = 1;
    f->report.misuses = &misuse;
    f->report.misuse_count = 1;
    reporting_add(f, NXM_CLASS_DEVICE, 1024, 0, 1, 0);
    reporting_assert_line(f, "1 KiB in 1 block, device 1, cu?[2J?no leaks");
    reporting_assert_line(f, "  of a block of 4 KiB, cu?[2J?no leaks");
}

static void an_api_outside_the_table_is_an_unknown_call(void **state)
{
    struct reporting *f = *state;

    reporting_add(f, NXM_CLASS_DEVICE, 1024, 4, 1, 0);
    reporting_add(f, NXM_CLASS_DEVICE, 512, 0, 1, 0);
    reporting_assert_line(f, "1 KiB in 1 block, device 1, unknown call");
    reporting_assert_line(f, "512 B in 1 block, device 1, unknown call");
}

static void frames_are_numbered_and_name_module_and_offset(void **state)
{
    struct reporting *f = *state;
    uint32_t stack = stack_through_the_loader();
    struct nxm_frame frame[64];
    size_t count = nxm_stack_frames(stack, frame, 64);
    char *text;

    reporting_add(f, NXM_CLASS_DEVICE, 1024, 1, 0, stack);
    text = reporting_written(f, NXM_REPORT_TEXT, NXM_OK);
    for (size_t i = 0; i < count; i++) {
        char line[512];
        const char *slash = strrchr(frame[i].module, '/');

        if (frame[i].symbol != NULL)
            snprintf(line, sizeof line, "    #%zu %s+0x%jx (%s+0x%jx)", i, frame[i].symbol, (uintmax_t)frame[i].symbol_offset,
                     slash == NULL ? frame[i].module : slash + 1, (uintmax_t)frame[i].offset);
        else
            snprintf(line, sizeof line, "    #%zu (%s+0x%jx)", i, slash == NULL ? frame[i].module : slash + 1, (uintmax_t)frame[i].offset);
        assert_true(reporting_has_line(text, line));
    }
    assert_true(count >= 2);
    free(text);
}

/* --- JSON --------------------------------------------------------------------------------------------------------- */

static void json_is_valid_and_says_null_for_what_is_not_there(void **state)
{
    struct reporting *f = *state;
    char *json = reporting_written(f, NXM_REPORT_JSON, NXM_OK);

    json_assert(json);
    assert_int_equal(json_number(json, "{", "schema"), 1);
    assert_non_null(strstr(json, "\"note\": null"));
    assert_non_null(strstr(json, "\"places\": []"));
    free(json);
    f->report.plugin = f->report.mechanism = NULL;
    reporting_add(f, NXM_CLASS_PINNED, 1, 0, -1, stack_through_qsort());
    json = reporting_written(f, NXM_REPORT_JSON, NXM_OK);
    json_assert(json);
    assert_non_null(strstr(json, "\"plugin\": null"));
    assert_non_null(strstr(json, "\"device\": null"));
    assert_non_null(strstr(json, "\"api\": null"));
    free(json);
}

static void json_survives_hostile_names(void **state)
{
    struct reporting *f = *state;
    char *json;

    f->report.program = "/tmp/\"quoted\\\n\xff\x01name";
    f->report.note = "tab\there";
    json = reporting_written(f, NXM_REPORT_JSON, NXM_OK);
    json_assert(json);
    assert_non_null(strstr(json, "\"/tmp/\\\"quoted\\\\\\n\\ufffd\\u0001name\""));
    free(json);
}

static void json_carries_the_gate_and_the_counters(void **state)
{
    struct reporting *f = *state;
    char *json;

    f->report.gate_known = 1;
    f->report.gate = (struct nxm_gate){ .reason = NXM_GATE_PLUGIN, .host = { 1, 2, 3, 0 }, .plugin = { 0, 0, 4, 5, 6, 7, 8 } };
    f->report.counters = (struct nxm_module_counters){ .leaked_callback_tables = 9, .reclaimed_callback_tables = 8, .modules_unmapped = 11 };
    json = reporting_written(f, NXM_REPORT_JSON, NXM_OK);
    json_assert(json);
    assert_non_null(strstr(json, "\"asked\": true, \"unloaded\": false, \"reason\": \"plugin\", \"extra\": null"));
    assert_int_equal(json_number(json, "\"host\"", "allocations"), 2);
    assert_int_equal(json_number(json, "\"plugin\": {", "views"), 6);
    assert_int_equal(json_number(json, "\"counters\"", "modules_unmapped"), 11);
    assert_int_equal(json_number(json, "\"counters\"", "leaked_callback_tables"), 9);
    assert_int_equal(json_number(json, "\"counters\"", "reclaimed_callback_tables"), 8);
    free(json);
}

static void json_names_every_reason_of_the_gate(void **state)
{
    static const struct {
        enum nxm_gate_reason reason;
        const char *text;
    } reasons[] = {
        { NXM_GATE_OPEN, "\"reason\": \"open\"" },         { NXM_GATE_QUERY_FAILED, "\"reason\": \"query_failed\"" },
        { NXM_GATE_HOST, "\"reason\": \"host\"" },         { NXM_GATE_PLUGIN, "\"reason\": \"plugin\"" },
        { NXM_GATE_REFERENCED, "\"reason\": \"referenced\"" },
    };
    struct reporting *f = *state;

    f->report.gate_known = 1;
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
        char *json;

        f->report.gate.reason = reasons[i].reason;
        json = reporting_written(f, NXM_REPORT_JSON, NXM_OK);
        json_assert(json);
        assert_non_null(strstr(json, reasons[i].text));
        free(json);
    }
}

/* --- empty ------------------------------------------------------------------------------------------------------------- */

static void a_process_that_never_allocated_is_empty(void **state)
{
    struct reporting *f = *state;

    assert_true(nxm_report_empty(&f->report));
    f->report.gate_known = 1; /* loaded and unloaded again */
    f->report.counters.modules_unmapped = 1;
    f->report.note = "not covered: 2";
    assert_true(nxm_report_empty(&f->report));
}

static void anything_recorded_even_if_gone_is_not_empty(void **state)
{
    struct reporting *f = *state;
    struct nxm_block block = reporting_add(f, NXM_CLASS_GRAPH, 0, 1, 0, 0);

    nxm_blocks_remove(f->table, block.address, block.id);
    assert_false(nxm_report_empty(&f->report));
}

static void each_figure_alone_is_not_empty(void **state)
{
    struct reporting *f = *state;
    const struct nxm_report nothing = f->report;
    struct nxm_amount *const amounts[] = { &f->report.reclaimed_by_reset, &f->report.freed_during_exit, &f->report.quarantined,
                                           &f->report.imported, &f->report.unknown_frees, &f->report.freed_out_of_sight };
    uint64_t *const figures[] = { &f->report.views, &f->report.misuse, &f->report.owned_bytes, &f->report.mapped_bytes,
                                  &f->report.counters.leaked_callback_tables, &f->report.counters.forced_module_leaks };

    for (size_t i = 0; i < 6; i++) {
        f->report = nothing;
        amounts[i]->blocks = 1;
        assert_false(nxm_report_empty(&f->report));
        *amounts[i] = (struct nxm_amount){ .bytes = 1 };
        assert_false(nxm_report_empty(&f->report));
        f->report = nothing;
        *figures[i] = 1;
        assert_false(nxm_report_empty(&f->report));
    }
    f->report = nothing;
    f->report.gate_known = 1;
    f->report.gate.reason = NXM_GATE_PLUGIN;
    assert_false(nxm_report_empty(&f->report));
}

#define reported(test) cmocka_unit_test_setup_teardown(test, reporting_setup, reporting_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        reported(the_whole_text_is_as_documented),
        reported(a_refused_free_is_told_with_its_block),
        reported(names_that_are_out_of_sight_are_told),
        reported(what_the_driver_says_of_memory_stands_beside_what_is_recorded),
        reported(names_are_reason_enough_for_a_report),
        reported(json_carries_names_and_refused_frees),
        reported(a_clean_run_says_so_and_shows_no_zero_line),
        reported(every_other_figure_has_its_line),
        reported(a_figure_that_is_half_zero_still_has_its_line),
        reported(a_program_whose_name_is_unknown_is_called_so),
        reported(a_process_without_a_plugin_has_no_gate_line),
        reported(the_gate_line_names_what_held_the_plugin),
        reported(a_hostile_name_cannot_forge_a_line),
        reported(nor_can_the_name_of_a_call),
        reported(an_api_outside_the_table_is_an_unknown_call),
        reported(frames_are_numbered_and_name_module_and_offset),
        reported(json_is_valid_and_says_null_for_what_is_not_there),
        reported(json_survives_hostile_names),
        reported(json_carries_the_gate_and_the_counters),
        reported(json_names_every_reason_of_the_gate),
        reported(a_process_that_never_allocated_is_empty),
        reported(anything_recorded_even_if_gone_is_not_empty),
        reported(each_figure_alone_is_not_empty),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
