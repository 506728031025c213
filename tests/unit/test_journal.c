/* core/arena.c and core/journal.c: tables that lie in a file, and what another process reads there. One journal for the whole
 * process: the tests run in this order. */
#include "core/journal.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/blocks.h"
#include "core/mem.h"
#include "core/stack.h"

enum { CAPACITY = 8 << 20 };

static char path[] = "/tmp/nxmem-test-journal-XXXXXX";
static struct nxm_blocks *table, *imports;
static const char *program;

static uint64_t disk_bytes(void)
{
    struct stat st;

    assert_int_equal(stat(path, &st), 0);
    return (uint64_t)st.st_blocks * 512;
}

static bool is_in_the_file(const void *p)
{
    const char *start = (const char *)nxm_journal();

    return (const char *)p >= start && (const char *)p < start + CAPACITY;
}

static void without_a_journal_nothing_is_noted(void **state)
{
    void *page = nxm_mem_map(4096);

    (void)state;
    assert_null(nxm_journal());
    nxm_journal_add(NXM_SUM_QUARANTINED, 5);
    nxm_journal_gate(&(struct nxm_gate){ .reason = NXM_GATE_HOST }, NULL);
    nxm_journal_device_memory(&(struct nxm_device_memory){ .device = 0, .used = 1 });
    nxm_journal_ended();
    assert_non_null(page);
    nxm_mem_unmap(page, 4096);
}

/* Each refusal leaves what is there as it was, and no journal. */
static void refused(const char *where, uint64_t capacity, int expected, const char *words)
{
    struct nxm_error error = { 0 };

    assert_int_equal(nxm_journal_begin(where, capacity, &error), expected);
    assert_non_null(strstr(error.text, words));
    assert_null(nxm_journal());
}

static void a_place_that_will_not_do_is_refused(void **state)
{
    char text[] = "/tmp/nxmem-test-text-XXXXXX", bytes[400];
    int fd = mkstemp(text);
    struct stat st;

    (void)state;
    memset(bytes, 'x', sizeof bytes);
    assert_int_equal(write(fd, bytes, 10), 10);
    refused(text, CAPACITY, NXM_EINVAL, "is no journal");
    assert_int_equal(write(fd, bytes, sizeof bytes), sizeof bytes);
    refused(text, CAPACITY, NXM_EINVAL, "is no journal");
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_size, 10 + sizeof bytes);
    assert_int_equal(st.st_nlink, 1);
    close(fd);
    unlink(text);
    refused("/tmp", CAPACITY, NXM_EINVAL, "is no journal");
    refused("/dev/null", CAPACITY, NXM_EINVAL, "is no journal");
    refused("/proc/no/such/folder", CAPACITY, NXM_EINVAL, "cannot make");
    refused(text, 8192, NXM_ENOMEM, "no room");
    assert_int_equal(access(text, F_OK), -1);
}

static void a_journal_takes_no_more_of_the_disk_than_it_needs(void **state)
{
    struct nxm_error error = { 0 };

    (void)state;
    assert_int_equal(nxm_journal_begin(path, CAPACITY, &error), NXM_OK);
    assert_non_null(nxm_journal());
    assert_true(disk_bytes() < 256 << 10);
    uint64_t before = disk_bytes();
    char *pages = nxm_mem_map_kept(1 << 20);
    assert_true(is_in_the_file(pages));
    for (int i = 0; i < 1 << 20; i++)
        assert_int_equal(pages[i], 0);
    assert_true(disk_bytes() >= before + (1 << 20)); /* its room is certain: no SIGBUS on a full disk */
    memset(pages, 1, 1 << 20);
    nxm_mem_unmap(pages, 1 << 20);
    assert_true(disk_bytes() < before + (512 << 10));
    assert_int_equal(atomic_load(&nxm_journal()->arena.missed), 0);
}

static void record(uint64_t address, uint32_t stack)
{
    struct nxm_block block = { .address = address, .bytes = 100, .id = nxm_block_next_id(), .state = NXM_BLOCK_LIVE,
                               .class_ = NXM_CLASS_DEVICE, .owned = 128, .mapped = 256, .stack = stack };

    assert_int_equal(nxm_blocks_insert(table, &block), NXM_OK);
}

/* What a process finds that has nothing but the file. Ends with the number of the line that failed. */
static int read_it(void)
{
    struct nxm_journal *journal;
    struct nxm_report report;
    struct nxm_error error = { 0 };
    struct nxm_frame frame;
    struct nxm_block block;
    int fd = open(path, O_RDONLY);

#define WANT(condition) do { if (!(condition)) return __LINE__ % 250 + 1; } while (0)
    if (nxm_journal_open(fd, &journal, &error) != NXM_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 251;
    }
    nxm_journal_report(journal, NULL, &report);
    WANT(report.imported.blocks == 2 && report.api_count == 2 && strcmp(report.api_names[1], "cuMemAlloc_v2") == 0);
    WANT(strcmp(report.plugin, "/a/plugin.so") == 0 && report.mechanism == NULL);
    WANT(report.table_count == 2 && report.owned_bytes == 512 && report.mapped_bytes == 1024);
    WANT(report.quarantined.blocks == 1 && report.quarantined.bytes == 77);
    WANT(report.gate_known && report.gate.reason == NXM_GATE_PLUGIN && strcmp(report.gate_extra, "because") == 0);
    WANT(report.misuse == 1 && report.misuse_count == 1 && report.misuses[0].address == 0x10);
    WANT(nxm_blocks_find(report.tables[0], 0x2000, &block) == NXM_OK && block.bytes == 100);
    WANT(nxm_stack_frames(block.stack, &frame, 1) > 0 && strstr(frame.module, "cmocka") != NULL);
    WANT(nxm_blocks_containing(report.tables[0], 0x1050, &block) == NXM_OK && block.address == 0x1000);
    WANT(nxm_blocks_containing(report.tables[0], 0x1064, &block) == NXM_ENOENT);
    WANT(nxm_blocks_find(report.tables[0], 0x3000, &block) == NXM_ENOENT);
    WANT(nxm_blocks_find(report.tables[0], 0x4000, &block) == NXM_OK && block.state == NXM_BLOCK_RELEASING);
    WANT(nxm_blocks_find(report.tables[0], 0x5000, &block) == NXM_OK && block.state == NXM_BLOCK_WAITING);
    WANT(report.unknown.count == 1 && strcmp(report.unknown.list[0], "cuNew (version 12030)") == 0);
    WANT(report.uncovered.count == 2 && strcmp(report.uncovered.list[0], "libdeep.so (RTLD_DEEPBIND)") == 0);
    WANT(strcmp(report.uncovered.list[1], "libapart.so (a namespace of its own)") == 0);
    WANT(report.device_memory_count == 2 && report.device_memory[0].device == 1 && report.device_memory[0].used == 300);
    WANT(report.device_memory[0].recorded == 200 && report.device_memory[1].device == NXM_JOURNAL_DEVICES - 1);
    WANT(atomic_load(&journal->ended) == 1);
    return 0;
}

static void note(struct nxm_noted_table *in, unsigned at, struct nxm_noted noted)
{
    in->list[at] = noted;
    in->state[at] = NXM_NOTED_FULL;
}

static void note_names(void)
{
    struct nxm_noted_table *unknown = &nxm_journal()->unknown, *uncovered = &nxm_journal()->uncovered;

    note(unknown, 0, (struct nxm_noted){ .text = "cuAsked", .allocates = true });
    note(unknown, 1, (struct nxm_noted){ .text = "cuHarmless", .found = true });
    note(unknown, 2, (struct nxm_noted){ .text = "cuNew", .version = 12030, .allocates = true, .found = true });
    note(unknown, 3, unknown->list[2]); /* by two threads at once */
    note(uncovered, 0, (struct nxm_noted){ .text = "libdeep.so" });
    note(uncovered, 1, (struct nxm_noted){ .text = "libapart.so", .found = true });
}

static void note_device_memory(void)
{
    nxm_journal_device_memory(&(struct nxm_device_memory){ .device = NXM_JOURNAL_DEVICES - 1, .used = 1 });
    nxm_journal_device_memory(&(struct nxm_device_memory){ .device = 1, .used = 5, .recorded = 4 });
    nxm_journal_device_memory(&(struct nxm_device_memory){ .device = 1, .used = 300, .recorded = 200 }); /* the last word counts */
    nxm_journal_device_memory(&(struct nxm_device_memory){ .device = -1, .used = 7 });
    nxm_journal_device_memory(&(struct nxm_device_memory){ .device = NXM_JOURNAL_DEVICES, .used = 7 });
}

/* One that was freed, one whose release is under way, one that waits for its release. */
static void record_what_is_not_live(void)
{
    struct nxm_block block;

    for (uint64_t address = 0x3000; address <= 0x5000; address += 0x1000)
        record(address, 0);
    assert_int_equal(nxm_blocks_find(table, 0x3000, &block), NXM_OK);
    assert_int_equal(nxm_blocks_remove(table, 0x3000, block.id), NXM_OK);
    assert_int_equal(nxm_blocks_find(table, 0x4000, &block), NXM_OK);
    assert_int_equal(nxm_blocks_claim(table, 0x4000, block.id, NXM_BLOCK_LIVE, NXM_BLOCK_RELEASING, &block), NXM_OK);
    assert_int_equal(nxm_blocks_find(table, 0x5000, &block), NXM_OK);
    assert_int_equal(nxm_blocks_claim(table, 0x5000, block.id, NXM_BLOCK_LIVE, NXM_BLOCK_WAITING, &block), NXM_OK);
}

static void a_journal_is_known_by_its_beginning(void **state)
{
    char text[] = "/tmp/nxmem-test-text-XXXXXX", bytes[400];
    int fd = mkstemp(text);

    (void)state;
    assert_true(nxm_journal_is_at(path));
    assert_false(nxm_journal_is_at(text)); /* empty */
    memset(bytes, 'x', sizeof bytes);
    assert_int_equal(write(fd, bytes, sizeof bytes), sizeof bytes);
    assert_false(nxm_journal_is_at(text));
    close(fd);
    unlink(text);
    assert_false(nxm_journal_is_at(text));
    assert_false(nxm_journal_is_at("/tmp"));
    assert_false(nxm_journal_is_at("/dev/null"));
}

static void another_process_reads_the_tables_where_they_lie(void **state)
{
    int status;

    (void)state;
    assert_int_equal(nxm_blocks_new(&table), NXM_OK);
    assert_true(is_in_the_file(table));
    nxm_journal()->tables[0] = table;
    assert_int_equal(nxm_blocks_new(&imports), NXM_OK);
    nxm_journal()->tables[1] = imports;
    nxm_journal()->imports = 1;
    atomic_store(&nxm_journal()->table_count, 2);
    nxm_journal()->api_count = 2;
    nxm_journal_text(nxm_journal()->apis[1], NXM_JOURNAL_NAME, "cuMemAlloc_v2");
    nxm_journal_text(nxm_journal()->plugin, NXM_JOURNAL_PATH, "/a/plugin.so");
    nxm_journal_text(nxm_journal()->mechanism, sizeof nxm_journal()->mechanism, NULL);
    assert_int_equal(nxm_blocks_insert(imports, &(struct nxm_block){ .address = 0x9000, .id = nxm_block_next_id(), .tag = 2,
                                                                     .state = NXM_BLOCK_LIVE, .class_ = NXM_CLASS_IMPORTED }),
                     NXM_OK);
    record(0x1000, 0);
    record(0x2000, nxm_stack_capture(8));
    record_what_is_not_live();
    note_names();
    note_device_memory();
    nxm_journal_add(NXM_SUM_QUARANTINED, 77);
    nxm_journal_gate(&(struct nxm_gate){ .reason = NXM_GATE_PLUGIN }, "because");
    nxm_misuse_note(&(struct nxm_misuse){ .kind = NXM_MISUSE_TWICE, .address = 0x10, .api = -1 });
    nxm_journal_ended();
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        execl(program, "test_journal", "read", path, (char *)NULL); /* /proc/self/exe would be valgrind, under it */
        _exit(252);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* The file with one thing changed, read back. */
static void is_said_of(size_t offset, const void *bytes, size_t count, const char *words)
{
    char before[64];
    struct nxm_journal *journal;
    struct nxm_error error = { 0 };
    int fd = open(path, O_RDWR);

    assert_true(count <= sizeof before);
    assert_int_equal(pread(fd, before, count, (off_t)offset), count);
    assert_int_equal(pwrite(fd, bytes, count, (off_t)offset), count);
    int result = nxm_journal_open(fd, &journal, &error);
    assert_int_equal(pwrite(fd, before, count, (off_t)offset), count);
    close(fd);
    assert_int_not_equal(result, NXM_OK);
    assert_non_null(strstr(error.text, words));
}

static void a_journal_that_cannot_be_is_refused(void **state)
{
    const uint64_t odd = 12345, more = 2 * CAPACITY, elsewhere = 0x5a0000000000;
    char empty[] = "/tmp/nxmem-test-empty-XXXXXX";
    struct nxm_journal *journal;
    struct nxm_error error = { 0 };
    int fd = mkstemp(empty);

    (void)state;
    unlink(empty);
    assert_int_equal(nxm_journal_open(fd, &journal, &error), NXM_EINVAL); /* too short */
    close(fd);
    is_said_of(offsetof(struct nxm_journal, magic), "X", 1, "no journal");
    is_said_of(offsetof(struct nxm_journal, layout), &odd, sizeof odd, "nxmem-report of that one");
    is_said_of(offsetof(struct nxm_journal, arena.capacity), &more, sizeof more, "damaged");
    is_said_of(offsetof(struct nxm_journal, arena.base), &odd, sizeof odd, "damaged");
    is_said_of(offsetof(struct nxm_journal, arena.used), &more, sizeof more, "damaged");
    is_said_of(offsetof(struct nxm_journal, pid), &elsewhere, 4, "is taken here"); /* by the one that writes it */
}

static void what_is_too_large_for_the_journal_is_kept_elsewhere_and_counted(void **state)
{
    (void)state;
    char *pages = nxm_mem_map_kept(2 * CAPACITY);
    assert_non_null(pages);
    assert_false(is_in_the_file(pages));
    assert_int_equal(atomic_load(&nxm_journal()->arena.missed), 2 * CAPACITY);
    pages[2 * CAPACITY - 1] = 1;
    nxm_mem_unmap(pages, 2 * CAPACITY);
    while (is_in_the_file(pages = nxm_mem_map_kept(1 << 20)))
        memset(pages, 1, 1 << 20);
    assert_non_null(pages); /* the file is full, the process lives */
    pages[0] = 1;
    assert_true(atomic_load(&nxm_journal()->arena.used) <= CAPACITY);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_journal_nothing_is_noted),
        cmocka_unit_test(a_place_that_will_not_do_is_refused),
        cmocka_unit_test(a_journal_takes_no_more_of_the_disk_than_it_needs),
        cmocka_unit_test(a_journal_is_known_by_its_beginning),
        cmocka_unit_test(another_process_reads_the_tables_where_they_lie),
        cmocka_unit_test(a_journal_that_cannot_be_is_refused),
        cmocka_unit_test(what_is_too_large_for_the_journal_is_kept_elsewhere_and_counted),
    };

    program = argv[0];
    if (argc == 3) {
        snprintf(path, sizeof path, "%s", argv[2]);
        return read_it();
    }
    close(mkstemp(path)); /* an empty file may be replaced */
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
