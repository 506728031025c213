#include "report_library.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/blocks.h"
#include "core/leaks.h"
#include "core/report.h"
#include "core/report_format.h"
#include "core/result.h"

#define EXPORT __attribute__((visibility("default")))
#define BASE UINT64_C(0x7f0000000000)
#define BLOCK (UINT64_C(64) << 10)
#define RUNS 7

static const char *const apis[] = { "cuMemAlloc" };

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static struct nxm_blocks *filled(const uint32_t *stacks, size_t count, size_t live)
{
    struct nxm_blocks *table = NULL;

    if (nxm_blocks_new(&table) != NXM_OK)
        return NULL;
    for (size_t i = 0; i < live; i++) {
        struct nxm_block block = { .address = BASE + i * BLOCK, .bytes = BLOCK, .id = i + 1, .stack = stacks[i % count],
                                   .class_ = NXM_CLASS_DEVICE, .state = NXM_BLOCK_LIVE };

        if (nxm_blocks_insert(table, &block) != NXM_OK)
            return NULL;
    }
    return table;
}

/* --- what fprintf takes for the same lines, from the same groups ----------------------------------------------------------- */

static void print_place(FILE *f, const struct nxm_leak_group *group)
{
    struct nxm_frame frames[NXM_STACK_DEPTH_MAX];
    size_t count = nxm_stack_frames(group->stack, frames, NXM_STACK_DEPTH_MAX);
    uint64_t hundredths = group->amount.bytes * 100 >> 20;

    fprintf(f, "\n%ju.%02ju MiB in %ju block%s, device %d, %s\n", (uintmax_t)hundredths / 100, (uintmax_t)hundredths % 100,
            (uintmax_t)group->amount.blocks, group->amount.blocks == 1 ? "" : "s", group->device, apis[group->api]);
    for (size_t i = 0; i < count; i++) {
        const char *slash = strrchr(frames[i].module, '/'), *module = slash == NULL ? frames[i].module : slash + 1;

        if (frames[i].symbol != NULL)
            fprintf(f, "    #%zu %s+0x%jx (%s+0x%jx)\n", i, frames[i].symbol, (uintmax_t)frames[i].symbol_offset, module,
                    (uintmax_t)frames[i].offset);
        else
            fprintf(f, "    #%zu (%s+0x%jx)\n", i, module, (uintmax_t)frames[i].offset);
    }
}

static void print_list(FILE *f, const struct nxm_leaks *leaks)
{
    for (size_t i = 0; i < leaks->places; i++)
        print_place(f, &leaks->groups[i]);
    fflush(f);
}

static void write_list(int fd, const struct nxm_report *report, const struct nxm_leaks *leaks)
{
    struct nxm_page page;

    nxm_page_init(&page, fd);
    nxm_report_text(&page, report, leaks);
    nxm_page_clear(&page);
}

/* Do both say the same? Then what fprintf makes stands in the report, line for line. */
static bool same_list(const struct nxm_report *report, const struct nxm_leaks *leaks)
{
    static char ours[8 << 20], theirs[8 << 20];
    FILE *a = tmpfile(), *b = tmpfile();
    bool same;

    if (a == NULL || b == NULL)
        return false;
    write_list(fileno(a), report, leaks);
    print_list(b, leaks);
    rewind(b);
    lseek(fileno(a), 0, SEEK_SET);
    ours[fread(ours, 1, sizeof ours - 1, a)] = '\0';
    theirs[fread(theirs, 1, sizeof theirs - 1, b)] = '\0';
    same = theirs[0] != '\0' && strstr(ours, theirs) != NULL;
    fclose(a);
    fclose(b);
    return same;
}

EXPORT int bench_report(const uint32_t *stacks, size_t count, size_t live)
{
    struct nxm_blocks *table = filled(stacks, count, live);
    struct nxm_report report = { .version = "0", .tables = &table, .table_count = 1, .api_names = apis, .api_count = 1 };
    struct nxm_leaks leaks;
    double ours = 1e9, theirs = 1e9;
    FILE *nowhere = fopen("/dev/null", "w");

    if (table == NULL || nowhere == NULL)
        return 1;
    nxm_leaks_init(&leaks, &table, 1, NULL);
    if (leaks.places != count || !same_list(&report, &leaks)) {
        fprintf(stderr, "bench_report: the lists differ\n");
        return 1;
    }
    for (int run = 0; run < RUNS; run++) {
        double begin = now(), written, printed;

        write_list(fileno(nowhere), &report, &leaks);
        written = now();
        print_list(nowhere, &leaks);
        printed = now();
        ours = written - begin < ours ? written - begin : ours;
        theirs = printed - written < theirs ? printed - written : theirs;
    }
    printf("report-list %.3f ms\nreport-list-fprintf %.3f ms\nreport-list/fprintf %.3f ratio\n", ours, theirs, ours / theirs);
    nxm_leaks_clear(&leaks);
    nxm_blocks_free(table);
    fclose(nowhere);
    return 0;
}
