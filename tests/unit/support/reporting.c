#include "reporting.h"

#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/result.h"
#include "core/stack.h"

static const char *const apis[] = { NULL, "cudaMalloc", "cuMemAlloc_v2", "cudaMallocHost" };

int reporting_setup(void **state)
{
    struct reporting *f = calloc(1, sizeof *f);

    if (f == NULL || nxm_blocks_new(&f->table) != NXM_OK)
        return -1;
    f->report = (struct nxm_report){ .version = "1.2.3", .program = "/usr/bin/app", .pid = 42, .plugin = "/opt/nxmem/direct.so",
                                     .mechanism = "cuda-direct", .tables = &f->table, .table_count = 1,
                                     .api_names = apis, .api_count = 4 };
    *state = f;
    return 0;
}

int reporting_teardown(void **state)
{
    struct reporting *f = *state;

    nxm_blocks_free(f->table);
    free(f);
    return 0;
}

struct nxm_block reporting_add(struct reporting *f, enum nxm_class class_, uint64_t bytes, unsigned api, int device, uint32_t stack)
{
    struct nxm_block block = { .address = REPORTING_BASE + f->next++ * 65536, .bytes = bytes, .id = nxm_block_next_id(), .device = device,
                               .api = (uint16_t)api, .class_ = (uint8_t)class_, .stack = stack, .state = NXM_BLOCK_LIVE };

    assert_int_equal(nxm_blocks_insert(f->table, &block), NXM_OK);
    return block;
}

/* The report as a string that the caller frees. */
char *reporting_written(struct reporting *f, enum nxm_report_format format, int expected)
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

bool reporting_has_line(const char *text, const char *line)
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

void reporting_assert_line(struct reporting *f, const char *line)
{
    char *text = reporting_written(f, NXM_REPORT_TEXT, NXM_OK);

    if (!reporting_has_line(text, line))
        fail_msg("no line \"%s\" in\n%s", line, text);
    free(text);
}

/* --- stacks ------------------------------------------------------------------------------------------- */

static uint32_t captured;

static int capture_in_compare(const void *a, const void *b)
{
    captured = nxm_stack_capture(16);
    return *(const char *)a - *(const char *)b;
}

uint32_t stack_through_qsort(void)
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

uint32_t stack_through_the_loader(void)
{
    dl_iterate_phdr(capture_in_walk, NULL);
    assert_int_not_equal(captured, 0);
    return captured;
}
