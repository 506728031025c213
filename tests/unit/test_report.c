/* core/report, leaks and page: written to files in memory and read back. The layout that docs/report.md
 * promises is compared line by line, numbers through the JSON form. */
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/mem.h"
#include "core/report.h"
#include "core/result.h"
#include "core/stack.h"

#define BASE UINT64_C(0x7f0000000000)

static const char *const apis[] = { NULL, "cudaMalloc", "cuMemAlloc_v2", "cudaMallocHost" };

struct fixture {
    struct nxm_blocks *table;
    struct nxm_report report;
    uint64_t next;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    if (f == NULL || nxm_blocks_new(&f->table) != NXM_OK)
        return -1;
    f->report = (struct nxm_report){ .version = "1.2.3", .program = "/usr/bin/app", .pid = 42, .plugin = "/opt/nxmem/direct.so",
                                     .mechanism = "cuda-direct", .tables = &f->table, .table_count = 1,
                                     .api_names = apis, .api_count = 4 };
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    nxm_blocks_free(f->table);
    free(f);
    return 0;
}

static struct nxm_block add(struct fixture *f, enum nxm_class class_, uint64_t bytes, unsigned api, int device, uint32_t stack)
{
    struct nxm_block block = { .address = BASE + f->next++ * 65536, .bytes = bytes, .id = nxm_block_next_id(), .device = device,
                               .api = (uint16_t)api, .class_ = (uint8_t)class_, .stack = stack, .state = NXM_BLOCK_LIVE };

    assert_int_equal(nxm_blocks_insert(f->table, &block), NXM_OK);
    return block;
}

/* The report as a string that the caller frees. */
static char *written(struct fixture *f, enum nxm_report_format format, int expected)
{
    int file = memfd_create("report", 0);
    off_t length;
    char *text;

    assert_true(file >= 0);
    assert_int_equal(nxm_report_write(file, &f->report, format), expected);
    length = lseek(file, 0, SEEK_END);
    text = malloc((size_t)length + 1);
    assert_non_null(text);
    assert_int_equal(pread(file, text, (size_t)length, 0), length);
    text[length] = '\0';
    close(file);
    return text;
}

static bool has_line(const char *text, const char *line)
{
    size_t length = strlen(line);
    const char *at = text;

    while ((at = strstr(at, line)) != NULL) {
        if ((at == text || at[-1] == '\n') && at[length] == '\n')
            return true;
        at++;
    }
    return false;
}

static void assert_line(struct fixture *f, const char *line)
{
    char *text = written(f, NXM_REPORT_TEXT, NXM_OK);

    if (!has_line(text, line))
        fail_msg("no line \"%s\" in\n%s", line, text);
    free(text);
}

/* The number behind `"key": ` after the place where `section` stands. */
static uint64_t json_number(const char *json, const char *section, const char *key)
{
    const char *at = strstr(json, section);
    char quoted[64];

    assert_non_null(at);
    snprintf(quoted, sizeof quoted, "\"%s\": ", key);
    at = strstr(at, quoted);
    assert_non_null(at);
    return strtoull(at + strlen(quoted), NULL, 10);
}

/* --- a validator of JSON ---------------------------------------------------------------------------------- */

static const char *json_value(const char *s);

static const char *json_space(const char *s)
{
    return s + strspn(s, " \n\t\r");
}

static const char *json_string(const char *s)
{
    if (*s++ != '"')
        return NULL;
    for (; *s != '"'; s++) {
        if ((unsigned char)*s < 0x20)
            return NULL;
        if (*s == '\\' && strchr("\"\\/bfnrtu", *++s) == NULL)
            return NULL;
    }
    return s + 1;
}

static const char *json_members(const char *s, bool keys, char end)
{
    s = json_space(s + 1);
    if (*s == end)
        return s + 1;
    for (;;) {
        if (keys) {
            s = json_string(json_space(s));
            s = s == NULL ? NULL : json_space(s);
            if (s == NULL || *s++ != ':')
                return NULL;
        }
        s = json_value(s);
        if (s == NULL)
            return NULL;
        s = json_space(s);
        if (*s == end)
            return s + 1;
        if (*s++ != ',')
            return NULL;
    }
}

static const char *json_value(const char *s)
{
    s = json_space(s);
    if (*s == '{' || *s == '[')
        return json_members(s, *s == '{', *s == '{' ? '}' : ']');
    if (*s == '"')
        return json_string(s);
    for (size_t i = 0; i < 3; i++) {
        static const char *const words[] = { "true", "false", "null" };

        if (strncmp(s, words[i], strlen(words[i])) == 0)
            return s + strlen(words[i]);
    }
    s += *s == '-';
    return strspn(s, "0123456789") == 0 ? NULL : s + strspn(s, "0123456789");
}

static void assert_json(const char *text)
{
    const char *end = json_value(text);

    assert_non_null(end);
    assert_int_equal(*json_space(end), '\0');
}

/* --- stacks to report: both pass through libc, which is not our own library ---------------------------------- */

static uint32_t captured;

static int capture_in_compare(const void *a, const void *b)
{
    captured = nxm_stack_capture(16);
    return *(const char *)a - *(const char *)b;
}

static uint32_t stack_through_qsort(void)
{
    char two[2] = { 1, 0 };

    qsort(two, 2, 1, capture_in_compare);
    assert_int_not_equal(captured, 0);
    return captured;
}

static int capture_in_walk(struct dl_phdr_info *info, size_t size, void *argument)
{
    (void)info;
    (void)size;
    (void)argument;
    captured = nxm_stack_capture(16);
    return 1;
}

static uint32_t stack_through_the_loader(void)
{
    dl_iterate_phdr(capture_in_walk, NULL);
    assert_int_not_equal(captured, 0);
    return captured;
}

/* --- the text --------------------------------------------------------------------------------------------------- */

static void the_whole_text_is_as_documented(void **state)
{
    struct fixture *f = *state;
    struct nxm_block waiting;
    char *text;

    add(f, NXM_CLASS_DEVICE, 1 << 19, 1, 0, 0);
    add(f, NXM_CLASS_DEVICE, 1 << 19, 1, 0, 0);
    add(f, NXM_CLASS_PINNED, 1 << 19, 3, -1, 0);
    waiting = add(f, NXM_CLASS_DEVICE, 4096, 2, 0, 0);
    assert_int_equal(nxm_blocks_claim(f->table, waiting.address, 0, NXM_BLOCK_LIVE, NXM_BLOCK_WAITING, NULL), NXM_OK);
    add(f, NXM_CLASS_VMM_RESERVED, UINT64_C(1) << 30, 0, 0, 0);
    add(f, NXM_CLASS_VMM_CREATED, 2 << 20, 0, 0, 0);
    f->report.gate_known = 1;
    f->report.gate = (struct nxm_gate){ .reason = NXM_GATE_HOST, .handle_kept = true, .host = { 1, 2, 0 }, .plugin = { .live_views = 1 } };
    f->report.note = "2 entry points of this driver are not covered";
    text = written(f, NXM_REPORT_TEXT, NXM_OK);
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
        "unload gate         plugin kept mapped: 2 blocks, 1 view\n"
        "note                2 entry points of this driver are not covered\n");
    free(text);
}

static void a_clean_run_says_so_and_shows_no_zero_line(void **state)
{
    struct fixture *f = *state;
    struct nxm_block block = add(f, NXM_CLASS_DEVICE, 1024, 1, 0, 0);
    char *text;

    assert_int_equal(nxm_blocks_remove(f->table, block.address, block.id), NXM_OK);
    f->report.gate_known = 1;
    text = written(f, NXM_REPORT_TEXT, NXM_OK);
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
    struct fixture *f = *state;

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
    assert_line(f, "quarantined         1 block, 2 KiB: kept back by the plugin for good");
    assert_line(f, "reclaimed by reset  2 blocks, 4 KiB: live when their context went");
    assert_line(f, "freed during exit   3 blocks, 1 B: after the plugin's last moment");
    assert_line(f, "freed out of sight  4 blocks, 2 B: gone without a free that we saw");
    assert_line(f, "imports left open   5 blocks, 3 B");
    assert_line(f, "unknown frees       6 frees of an address that we never saw");
    assert_line(f, "views               7 shared prefix views in live blocks");
    assert_line(f, "misuse              1 free answered with an error (double, foreign or interior)");
    assert_line(f, "by the plugin       owned 1 KiB, mapped 2 KiB, for live blocks");
    assert_line(f, "leaked on purpose   1 callback table: a release it belongs to never completed");
    assert_line(f, "leaked on purpose   2 plugin modules: dropped while something lived in it");
}

static void a_process_without_a_plugin_has_no_gate_line(void **state)
{
    struct fixture *f = *state;
    char *text;

    f->report.plugin = NULL;
    f->report.mechanism = NULL;
    text = written(f, NXM_REPORT_TEXT, NXM_OK);
    assert_true(has_line(text, "nxmem 1.2.3: report of /usr/bin/app, pid 42, no plugin"));
    assert_null(strstr(text, "unload gate"));
    free(text);
}

static void the_gate_line_names_what_held_the_plugin(void **state)
{
    struct fixture *f = *state;

    assert_line(f, "unload gate         not asked: the process ended first");
    f->report.gate_known = 1;
    f->report.gate_extra = "a thread was inside the shim";
    assert_line(f, "unload gate         plugin kept mapped: a thread was inside the shim");
    f->report.gate.reason = NXM_GATE_HOST;
    f->report.gate.host = (struct nxm_tallies){ .allocators = 2, .allocations = 0, .queued = 1 };
    assert_line(f, "unload gate         plugin kept mapped: 1 queued release; a thread was inside the shim");
    f->report.gate_extra = NULL;
    f->report.gate.host.queued = 0;
    assert_line(f, "unload gate         plugin kept mapped: 2 open allocators");
    f->report.gate.reason = NXM_GATE_PLUGIN;
    f->report.gate.plugin = (NxmemUnloadReport){ .live_allocations = 1, .live_views = 2 };
    assert_line(f, "unload gate         plugin kept mapped: by its own count 1 block, 2 views");
    f->report.gate.reason = NXM_GATE_QUERY_FAILED;
    assert_line(f, "unload gate         plugin kept mapped: it could not say what is live in it");
    f->report.gate.reason = NXM_GATE_REFERENCED;
    assert_line(f, "unload gate         plugin kept mapped: something else still uses it");
    f->report.gate.reason = NXM_GATE_OPEN;
    f->report.gate.handle_kept = true;
    assert_line(f, "unload gate         plugin kept mapped: its handle was kept");
}

static void an_api_outside_the_table_is_an_unknown_call(void **state)
{
    struct fixture *f = *state;

    add(f, NXM_CLASS_DEVICE, 1024, 4, 1, 0);
    add(f, NXM_CLASS_DEVICE, 512, 0, 1, 0);
    assert_line(f, "1 KiB in 1 block, device 1, unknown call");
    assert_line(f, "512 B in 1 block, device 1, unknown call");
}

static void frames_are_numbered_and_name_module_and_offset(void **state)
{
    struct fixture *f = *state;
    uint32_t stack = stack_through_the_loader();
    struct nxm_frame frame[64];
    size_t count = nxm_stack_frames(stack, frame, 64);
    char *text;

    add(f, NXM_CLASS_DEVICE, 1024, 1, 0, stack);
    text = written(f, NXM_REPORT_TEXT, NXM_OK);
    for (size_t i = 0; i < count; i++) {
        char line[512];
        const char *slash = strrchr(frame[i].module, '/');

        if (frame[i].symbol != NULL)
            snprintf(line, sizeof line, "    #%zu %s+0x%jx (%s+0x%jx)", i, frame[i].symbol, (uintmax_t)frame[i].symbol_offset,
                     slash == NULL ? frame[i].module : slash + 1, (uintmax_t)frame[i].offset);
        else
            snprintf(line, sizeof line, "    #%zu (%s+0x%jx)", i, slash == NULL ? frame[i].module : slash + 1, (uintmax_t)frame[i].offset);
        assert_true(has_line(text, line));
    }
    assert_true(count >= 2);
    free(text);
}

/* --- grouping ------------------------------------------------------------------------------------------------- */

static void blocks_group_by_stack_class_api_and_device(void **state)
{
    struct fixture *f = *state;
    uint32_t a = stack_through_qsort(), b = stack_through_the_loader();
    char *json;

    add(f, NXM_CLASS_DEVICE, 100, 1, 0, a);
    add(f, NXM_CLASS_DEVICE, 100, 1, 0, a); /* the only two that belong together */
    add(f, NXM_CLASS_DEVICE, 100, 1, 0, b);
    add(f, NXM_CLASS_DEVICE, 100, 2, 0, a);
    add(f, NXM_CLASS_DEVICE, 100, 1, 1, a);
    add(f, NXM_CLASS_MANAGED, 100, 1, 0, a);
    json = written(f, NXM_REPORT_JSON, NXM_OK);
    assert_json(json);
    assert_int_equal(json_number(json, "\"leaked\"", "blocks"), 6);
    assert_int_equal(json_number(json, "\"leaked\"", "bytes"), 600);
    free(json);
    assert_line(f, "LEAK: 6 blocks, 600 B in 5 places");
    assert_line(f, "200 B in 2 blocks, device 0, cudaMalloc");
}

static void places_come_by_bytes_then_blocks_then_age(void **state)
{
    struct fixture *f = *state;
    static const char *const expected[] = { "\n1023 B in 1 block, device 5", "\n1000 B in 1 block, device 4", "\n300 B in 3 blocks, device 3",
                                            "\n300 B in 2 blocks, device 2", "\n300 B in 1 block, device 6", "\n300 B in 1 block, device 7" };
    char *text;
    const char *at;

    add(f, NXM_CLASS_DEVICE, 300, 1, 6, 0);
    add(f, NXM_CLASS_DEVICE, 300, 1, 7, 0);
    add(f, NXM_CLASS_DEVICE, 150, 1, 2, 0);
    add(f, NXM_CLASS_DEVICE, 150, 1, 2, 0);
    for (int i = 0; i < 3; i++)
        add(f, NXM_CLASS_DEVICE, 100, 1, 3, 0);
    add(f, NXM_CLASS_DEVICE, 1000, 1, 4, 0);
    add(f, NXM_CLASS_DEVICE, 1023, 1, 5, 0);
    text = written(f, NXM_REPORT_TEXT, NXM_OK);
    at = text;
    for (int i = 0; i < 6; i++) {
        at = strstr(at, expected[i]);
        assert_non_null(at);
    }
    free(text);
}

static void only_live_blocks_of_leaking_classes_are_leaks(void **state)
{
    struct fixture *f = *state;
    struct nxm_block a = add(f, NXM_CLASS_DEVICE, 100, 1, 0, 0), b = add(f, NXM_CLASS_DEVICE, 10, 1, 0, 0);
    char *json;

    add(f, NXM_CLASS_VMM_MAPPED, 1000, 1, 0, 0);
    add(f, NXM_CLASS_REGISTERED, 1000, 1, 0, 0);
    add(f, NXM_CLASS_NATIVE, 1, 1, 0, 0);
    nxm_blocks_claim(f->table, a.address, 0, NXM_BLOCK_LIVE, NXM_BLOCK_WAITING, NULL);
    nxm_blocks_claim(f->table, b.address, 0, NXM_BLOCK_LIVE, NXM_BLOCK_RELEASING, NULL);
    f->report.reclaimed_by_reset = (struct nxm_amount){ 9, 900 };
    assert_int_equal(nxm_report_leaks(&f->report), 1);
    json = written(f, NXM_REPORT_JSON, NXM_OK);
    assert_int_equal(json_number(json, "\"leaked\"", "bytes"), 1);
    assert_int_equal(json_number(json, "\"waiting\"", "blocks"), 2);
    assert_int_equal(json_number(json, "\"waiting\"", "bytes"), 110);
    assert_int_equal(json_number(json, "\"VMM_MAPPED\"", "live_bytes"), 1000);
    free(json);
}

static void several_tables_make_one_report(void **state)
{
    struct fixture *f = *state, other = { 0 };
    struct nxm_blocks *tables[2];
    char *json;

    assert_int_equal(nxm_blocks_new(&other.table), NXM_OK);
    tables[0] = f->table;
    tables[1] = other.table;
    f->report.tables = tables;
    f->report.table_count = 2;
    add(f, NXM_CLASS_DEVICE, 100, 1, 0, 0);
    add(&other, NXM_CLASS_DEVICE, 11, 1, 0, 0);
    json = written(f, NXM_REPORT_JSON, NXM_OK);
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
    struct fixture *f = *state;
    struct nxm_suppressions *suppressions = suppressing("leak:^dl_iterate_phdr$\n");
    char *json;

    add(f, NXM_CLASS_DEVICE, 5000, 1, 0, stack_through_the_loader());
    add(f, NXM_CLASS_DEVICE, 100, 1, 0, stack_through_qsort());
    assert_int_equal(nxm_report_leaks(&f->report), 2);
    f->report.suppressions = suppressions;
    assert_int_equal(nxm_report_leaks(&f->report), 1);
    assert_line(f, "LEAK: 1 block, 100 B in 1 place");
    assert_line(f, "suppressed          1 block, 4.88 KiB in 1 place");
    json = written(f, NXM_REPORT_JSON, NXM_OK);
    assert_int_equal(json_number(json, "\"suppressed\"", "bytes"), 5000);
    assert_null(strstr(json, "dl_iterate_phdr"));
    free(json);

    nxm_mem_fail_at(1); /* ungrouped, they are told apart all the same */
    assert_int_equal(nxm_report_leaks(&f->report), 1);
    nxm_suppressions_free(suppressions);
}

/* --- memory and descriptors -------------------------------------------------------------------------------------- */

static void without_memory_for_grouping_the_sums_are_still_right(void **state)
{
    struct fixture *f = *state;
    char *text;

    add(f, NXM_CLASS_DEVICE, 512, 1, 0, 0);
    add(f, NXM_CLASS_DEVICE, 512, 2, 0, 0);
    nxm_mem_fail_at(1);
    text = written(f, NXM_REPORT_TEXT, NXM_ENOMEM);
    assert_true(has_line(text, "LEAK: 2 blocks, 1 KiB (no memory left to tell the places apart)"));
    assert_true(has_line(text, "device              live 2 blocks, 1 KiB; peak 1 KiB; in all 2 blocks, 1 KiB"));
    free(text);
    nxm_mem_fail_at(1);
    text = written(f, NXM_REPORT_JSON, NXM_ENOMEM);
    assert_json(text);
    assert_int_equal(json_number(text, "\"leaked\"", "blocks"), 2);
    free(text);
}

#define PLACES 1500

static void add_many_places(struct fixture *f)
{
    uint32_t stack = stack_through_qsort();

    for (int i = 0; i < PLACES; i++)
        add(f, NXM_CLASS_DEVICE, 1 + (uint64_t)i * 7919 % PLACES, 1, i, stack);
}

/* The first requests after the groups' are the page's: wherever it has to make do, the text is the same. */
static void a_page_that_cannot_grow_writes_the_same_report(void **state)
{
    struct fixture *f = *state;
    char *whole;
    unsigned same = 0;

    add_many_places(f);
    for (int format = NXM_REPORT_TEXT; format <= NXM_REPORT_JSON; format++) {
        whole = written(f, (enum nxm_report_format)format, NXM_OK);
        assert_true(strlen(whole) > 3 * 65536);
        for (unsigned long n = 1; n <= 6; n++) {
            int file = memfd_create("report", 0), result;
            char *text = calloc(1, strlen(whole) + 1);

            assert_non_null(text);
            nxm_mem_fail_at(n);
            result = nxm_report_write(file, &f->report, (enum nxm_report_format)format);
            nxm_mem_fail_at(0);
            if (result == NXM_OK) {
                assert_int_equal(lseek(file, 0, SEEK_END), strlen(whole));
                assert_int_equal(pread(file, text, strlen(whole), 0), strlen(whole));
                assert_string_equal(text, whole);
                same++;
            }
            close(file);
            free(text);
        }
        free(whole);
    }
    assert_int_equal(same, 8); /* two of six requests were the groups' own */
}

static void many_places_are_all_there_in_order(void **state)
{
    struct fixture *f = *state;
    uint64_t last = UINT64_MAX;
    unsigned places = 0;
    char *json;

    add_many_places(f);
    json = written(f, NXM_REPORT_JSON, NXM_OK);
    assert_json(json);
    for (const char *at = json; (at = strstr(at, "\n    {\"bytes\": ")) != NULL; at++) {
        uint64_t bytes = json_number(at, "{", "bytes");

        assert_true(bytes <= last);
        last = bytes;
        places++;
    }
    assert_int_equal(places, PLACES);
    free(json);
}

static void a_descriptor_that_takes_nothing_is_an_error(void **state)
{
    struct fixture *f = *state;
    int full = open("/dev/full", O_WRONLY), closed = dup(full);

    assert_true(full >= 0);
    close(closed);
    assert_int_equal(nxm_report_write(full, &f->report, NXM_REPORT_TEXT), NXM_EINVAL);
    assert_int_equal(nxm_report_write(closed, &f->report, NXM_REPORT_TEXT), NXM_EINVAL);
    close(full);
}

/* --- JSON --------------------------------------------------------------------------------------------------------- */

static void json_is_valid_and_says_null_for_what_is_not_there(void **state)
{
    struct fixture *f = *state;
    char *json = written(f, NXM_REPORT_JSON, NXM_OK);

    assert_json(json);
    assert_int_equal(json_number(json, "{", "schema"), 1);
    assert_non_null(strstr(json, "\"note\": null"));
    assert_non_null(strstr(json, "\"places\": []"));
    free(json);
    f->report.plugin = f->report.mechanism = NULL;
    add(f, NXM_CLASS_PINNED, 1, 0, -1, stack_through_qsort());
    json = written(f, NXM_REPORT_JSON, NXM_OK);
    assert_json(json);
    assert_non_null(strstr(json, "\"plugin\": null"));
    assert_non_null(strstr(json, "\"device\": null"));
    assert_non_null(strstr(json, "\"api\": null"));
    free(json);
}

static void json_survives_hostile_names(void **state)
{
    struct fixture *f = *state;
    char *json;

    f->report.program = "/tmp/\"quoted\\\n\xff\x01name";
    f->report.note = "tab\there";
    json = written(f, NXM_REPORT_JSON, NXM_OK);
    assert_json(json);
    assert_non_null(strstr(json, "\"/tmp/\\\"quoted\\\\\\n\\ufffd\\u0001name\""));
    free(json);
}

static void json_carries_the_gate_and_the_counters(void **state)
{
    struct fixture *f = *state;
    char *json;

    f->report.gate_known = 1;
    f->report.gate = (struct nxm_gate){ .reason = NXM_GATE_PLUGIN, .host = { 1, 2, 3 }, .plugin = { 0, 0, 4, 5, 6, 7, 8 } };
    f->report.counters = (struct nxm_module_counters){ .leaked_callback_tables = 9, .reclaimed_callback_tables = 8, .modules_unmapped = 11 };
    json = written(f, NXM_REPORT_JSON, NXM_OK);
    assert_json(json);
    assert_non_null(strstr(json, "\"asked\": true, \"unloaded\": false, \"reason\": \"plugin\", \"extra\": null"));
    assert_int_equal(json_number(json, "\"host\"", "allocations"), 2);
    assert_int_equal(json_number(json, "\"plugin\": {", "views"), 6);
    assert_int_equal(json_number(json, "\"counters\"", "modules_unmapped"), 11);
    assert_int_equal(json_number(json, "\"counters\"", "leaked_callback_tables"), 9);
    assert_int_equal(json_number(json, "\"counters\"", "reclaimed_callback_tables"), 8);
    free(json);
}

/* --- consistency while threads allocate ------------------------------------------------------------------------------ */

static struct {
    struct nxm_blocks *table;
    atomic_bool stop;
    atomic_int running;
} churn;

static void *allocate_and_free(void *argument)
{
    uint64_t base = BASE + ((uint64_t)(uintptr_t)argument + 1) * (UINT64_C(1) << 32);

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
    struct fixture *f = *state;
    pthread_t threads[2];

    churn.table = f->table;
    atomic_store(&churn.stop, false);
    atomic_store(&churn.running, 0);
    for (uintptr_t i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, allocate_and_free, (void *)i), 0);
    while (atomic_load(&churn.running) < 2) {
    }
    for (int i = 0; i < 50; i++) {
        char *json = written(f, NXM_REPORT_JSON, NXM_OK);
        uint64_t bytes = 0, blocks = 0;

        assert_json(json);
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

/* --- empty ------------------------------------------------------------------------------------------------------------- */

static void a_process_that_never_allocated_is_empty(void **state)
{
    struct fixture *f = *state;

    assert_true(nxm_report_empty(&f->report));
    f->report.gate_known = 1; /* loaded and unloaded again */
    f->report.counters.modules_unmapped = 1;
    f->report.note = "not covered: 2";
    assert_true(nxm_report_empty(&f->report));
}

static void anything_recorded_even_if_gone_is_not_empty(void **state)
{
    struct fixture *f = *state;
    struct nxm_block block = add(f, NXM_CLASS_GRAPH, 0, 1, 0, 0);

    nxm_blocks_remove(f->table, block.address, block.id);
    assert_false(nxm_report_empty(&f->report));
}

static void each_figure_alone_is_not_empty(void **state)
{
    struct fixture *f = *state;
    const struct nxm_report nothing = f->report;
    struct nxm_amount *const amounts[] = { &f->report.reclaimed_by_reset, &f->report.freed_during_exit, &f->report.quarantined,
                                           &f->report.imported, &f->report.unknown_frees, &f->report.freed_out_of_sight };
    uint64_t *const figures[] = { &f->report.views, &f->report.misuse, &f->report.owned_bytes, &f->report.mapped_bytes,
                                  &f->report.counters.leaked_callback_tables, &f->report.counters.forced_module_leaks };

    for (size_t i = 0; i < 6; i++) {
        f->report = nothing;
        amounts[i]->blocks = 1;
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

/* --- path ---------------------------------------------------------------------------------------------------------------- */

static void assert_path(const char *pattern, const char *expected)
{
    char path[256];

    nxm_report_path(pattern, path, sizeof path);
    assert_string_equal(path, expected);
}

static void the_path_expands_pid_host_program_and_percent(void **state)
{
    char expected[256], self[256];
    struct utsname names;
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);

    (void)state;
    assert_true(length > 0);
    self[length] = '\0';
    uname(&names);
    snprintf(expected, sizeof expected, "/tmp/%s.%d.%s%%", names.nodename, (int)getpid(), strrchr(self, '/') + 1);
    assert_path("/tmp/%h.%p.%e%%", expected);
    assert_path("/tmp/%x%", "/tmp/%x%");
    assert_path("stderr", "stderr");
}

static void the_rank_is_the_first_number_of_the_four(void **state)
{
    (void)state;
    unsetenv("OMPI_COMM_WORLD_RANK");
    unsetenv("PMI_RANK");
    unsetenv("SLURM_PROCID");
    unsetenv("RANK");
    assert_path("r%r", "r0");
    setenv("RANK", "4", 1);
    assert_path("r%r", "r4");
    setenv("SLURM_PROCID", "3", 1);
    assert_path("r%r", "r3");
    setenv("PMI_RANK", "2", 1);
    assert_path("r%r", "r2");
    setenv("OMPI_COMM_WORLD_RANK", "1", 1);
    assert_path("r%r", "r1");
    setenv("OMPI_COMM_WORLD_RANK", "../../etc/1", 1);
    assert_path("r%r", "r2");
    setenv("PMI_RANK", "", 1);
    assert_path("r%r", "r3");
}

static void a_path_that_does_not_fit_is_empty_not_another(void **state)
{
    char *exact = malloc(8);

    (void)state;
    assert_non_null(exact);
    nxm_report_path("/tmp/ab", exact, 8); /* full to the last byte: it might have been cut */
    assert_string_equal(exact, "");
    nxm_report_path("/tmp/a", exact, 8);
    assert_string_equal(exact, "/tmp/a");
    nxm_report_path("/tmp/%h%h%h%h%h%h%h%h%h", exact, 8);
    assert_string_equal(exact, "");
    free(exact);
}

#define reported(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        reported(the_whole_text_is_as_documented),
        reported(a_clean_run_says_so_and_shows_no_zero_line),
        reported(every_other_figure_has_its_line),
        reported(a_process_without_a_plugin_has_no_gate_line),
        reported(the_gate_line_names_what_held_the_plugin),
        reported(an_api_outside_the_table_is_an_unknown_call),
        reported(frames_are_numbered_and_name_module_and_offset),
        reported(blocks_group_by_stack_class_api_and_device),
        reported(places_come_by_bytes_then_blocks_then_age),
        reported(only_live_blocks_of_leaking_classes_are_leaks),
        reported(several_tables_make_one_report),
        reported(suppressed_places_are_summed_and_are_no_leaks),
        reported(without_memory_for_grouping_the_sums_are_still_right),
        reported(a_page_that_cannot_grow_writes_the_same_report),
        reported(many_places_are_all_there_in_order),
        reported(a_descriptor_that_takes_nothing_is_an_error),
        reported(json_is_valid_and_says_null_for_what_is_not_there),
        reported(json_survives_hostile_names),
        reported(json_carries_the_gate_and_the_counters),
        reported(a_report_agrees_with_itself_while_threads_allocate),
        reported(a_process_that_never_allocated_is_empty),
        reported(anything_recorded_even_if_gone_is_not_empty),
        reported(each_figure_alone_is_not_empty),
        cmocka_unit_test(the_path_expands_pid_host_program_and_percent),
        cmocka_unit_test(the_rank_is_the_first_number_of_the_four),
        cmocka_unit_test(a_path_that_does_not_fit_is_empty_not_another),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
