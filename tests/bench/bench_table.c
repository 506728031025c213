/* What the live-block table costs: one line a figure, NAME VALUE UNIT. Times are the least of some runs. `pair` prints nothing: it
 * is for who counts instructions.
 *
 *   bench_table                        all figures
 *   bench_table pair LIVE NUMBER       insert, claim, remove: NUMBER times
 *   bench_table faults NUMBER          of so many insertions those that a fault interrupts, and how many pages calls populated
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/blocks.h"
#include "core/leaks.h"
#include "core/result.h"

#define BASE UINT64_C(0x7f0000000000)
#define BLOCK (UINT64_C(64) << 10)
#define RUNS 5

static uint64_t now_ns(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void check(int result)
{
    if (result == NXM_OK)
        return;
    fprintf(stderr, "bench_table: the table refuses: %d\n", result);
    exit(1);
}

static void say(const char *name, double value, const char *unit)
{
    printf("%s %.3f %s\n", name, value, unit);
    fflush(stdout);
}

static void insert(struct nxm_blocks *table, uint64_t address, uint32_t stack)
{
    struct nxm_block block = { .address = address, .bytes = BLOCK, .align = 256, .id = nxm_block_next_id(), .owned = BLOCK, .mapped = BLOCK,
                               .context = 1, .stack = stack, .class_ = NXM_CLASS_DEVICE, .state = NXM_BLOCK_LIVE };

    check(nxm_blocks_insert(table, &block));
}

static void end(struct nxm_blocks *table, uint64_t address)
{
    struct nxm_block block;

    check(nxm_blocks_claim(table, address, 0, NXM_BLOCK_LIVE, NXM_BLOCK_RELEASING, &block));
    check(nxm_blocks_remove(table, address, block.id));
}

static struct nxm_blocks *filled(uint64_t live)
{
    struct nxm_blocks *table = NULL;

    check(nxm_blocks_new(&table));
    for (uint64_t i = 0; i < live; i++)
        insert(table, BASE + (i + 1) * BLOCK, (uint32_t)(i % 1000));
    return table;
}

/* --- the same address again and again, beside others ------------------------------------------------------------------- */

static void pairs(struct nxm_blocks *table, uint64_t address, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        insert(table, address, 1);
        end(table, address);
    }
}

static double lifo(uint64_t live)
{
    struct nxm_blocks *table = filled(live);
    const uint64_t count = 300000;
    double least = 1e9;

    for (int run = 0; run < RUNS; run++) {
        uint64_t begin = now_ns(CLOCK_THREAD_CPUTIME_ID);

        pairs(table, BASE, count);
        double each = (double)(now_ns(CLOCK_THREAD_CPUTIME_ID) - begin) / (double)count;
        least = each < least ? each : least;
    }
    nxm_blocks_free(table);
    return least;
}

/* --- random churn, the table's and malloc's ------------------------------------------------------------------------------ */

static uint64_t next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static double churn(uint64_t live)
{
    struct nxm_blocks *table = filled(live);
    const uint64_t count = 500000;
    double least = 1e9;

    for (int run = 0; run < RUNS; run++) {
        uint64_t seed = 88172645463325252u, begin = now_ns(CLOCK_THREAD_CPUTIME_ID);

        for (uint64_t i = 0; i < count; i++) {
            uint64_t address = BASE + (next_random(&seed) % live + 1) * BLOCK;

            end(table, address);
            insert(table, address, 1);
        }
        double each = (double)(now_ns(CLOCK_THREAD_CPUTIME_ID) - begin) / (double)count;
        least = each < least ? each : least;
    }
    nxm_blocks_free(table);
    return least;
}

static double churn_malloc(uint64_t live)
{
    void **blocks = malloc(live * sizeof *blocks);
    const uint64_t count = 500000;
    double least = 1e9;

    for (uint64_t i = 0; i < live; i++)
        memset(blocks[i] = malloc(256), 1, 8);
    for (int run = 0; run < RUNS; run++) {
        uint64_t seed = 88172645463325252u, begin = now_ns(CLOCK_THREAD_CPUTIME_ID);

        for (uint64_t i = 0; i < count; i++) {
            uint64_t at = next_random(&seed) % live;

            free(blocks[at]);
            memset(blocks[at] = malloc(256), 1, 8);
        }
        double each = (double)(now_ns(CLOCK_THREAD_CPUTIME_ID) - begin) / (double)count;
        least = each < least ? each : least;
    }
    for (uint64_t i = 0; i < live; i++)
        free(blocks[i]);
    free(blocks);
    return least;
}

/* --- threads: processor time of each pair, so that fewer processors than threads say the same ------------------------------- */

#define PAIRS 300000u

struct worker {
    struct nxm_blocks *table;
    uint64_t address;
    double each;
    pthread_t thread;
};

static void *work(void *argument)
{
    struct worker *worker = argument;
    uint64_t begin = now_ns(CLOCK_THREAD_CPUTIME_ID);

    pairs(worker->table, worker->address, PAIRS);
    worker->each = (double)(now_ns(CLOCK_THREAD_CPUTIME_ID) - begin) / PAIRS;
    return NULL;
}

static double threads(unsigned count)
{
    double least = 1e9;

    for (int run = 0; run < RUNS; run++) {
        struct nxm_blocks *table = filled(1000);
        struct worker workers[8];
        double sum = 0;

        for (unsigned i = 0; i < count; i++) {
            workers[i] = (struct worker){ .table = table, .address = BASE + (2000 + i) * BLOCK };
            check(pthread_create(&workers[i].thread, NULL, work, &workers[i]));
        }
        for (unsigned i = 0; i < count; i++) {
            pthread_join(workers[i].thread, NULL);
            sum += workers[i].each;
        }
        least = sum / count < least ? sum / count : least;
        nxm_blocks_free(table);
    }
    return least;
}

/* --- memory and the worst insert -------------------------------------------------------------------------------------------- */

static double resident(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    long pages = 0;

    if (f == NULL || fscanf(f, "%*s %ld", &pages) != 1)
        exit(1);
    fclose(f);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static double memory(uint64_t live)
{
    double before = resident();
    struct nxm_blocks *table = filled(live);
    double each = (resident() - before) / (double)live;

    nxm_blocks_free(table);
    return each;
}

static int ascending(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

struct worst {
    double p9999, max; /* us, of what each insertion took at least */
    double run_p9999;  /* of a whole run, the best one */
};

static double p9999_of(uint32_t *took, uint64_t count)
{
    qsort(took, count, sizeof *took, ascending);
    return took[count - count / 10000 - 1] / 1e3;
}

/* Pages that are touched for the first time: as many as a table of `live` blocks has, in pieces as large as its own. */
enum { PAGE = 4096, PIECE = 512 << 10, INSERTIONS_PER_PAGE = 30 };
static char *pieces[1024];

static void touch(uint64_t page)
{
    uint64_t piece = page / (PIECE / PAGE);

    check(piece < sizeof pieces / sizeof *pieces ? NXM_OK : NXM_EINVAL);
    if (page % (PIECE / PAGE) == 0)
        pieces[piece] = mmap(NULL, PIECE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(pieces[piece] == MAP_FAILED ? NXM_ENOMEM : NXM_OK);
    pieces[piece][page % (PIECE / PAGE) * PAGE] = 1;
}

static void untouch(void)
{
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        if (pieces[i] != NULL)
            munmap(pieces[i], PIECE);
        pieces[i] = NULL;
    }
}

enum step { INSERT, TOUCH, WAIT };

/* The same insertions in each run, or as many touched pages, or so many times nothing for 400 ns. What the table does at one of them it does in every run; what
 * the machine does meanwhile (its timer, other programs, the host of a virtual one) comes at another place each time. */
static struct worst worst(uint64_t live, enum step step)
{
    uint32_t *took = calloc(live, sizeof *took), *least = malloc(live * sizeof *least);
    struct worst worst = { .run_p9999 = 1e9 };

    memset(took, 1, live * sizeof *took);
    memset(least, 0xff, live * sizeof *least);
    for (int run = 0; run < RUNS; run++) {
        struct nxm_blocks *table = filled(0);

        for (uint64_t i = 0; i < live; i++) {
            uint64_t begin = now_ns(CLOCK_MONOTONIC), end;

            if (step == INSERT)
                insert(table, BASE + (i + 1) * BLOCK, 1);
            else if (step == TOUCH && i % INSERTIONS_PER_PAGE == 0)
                touch(i / INSERTIONS_PER_PAGE);
            while ((end = now_ns(CLOCK_MONOTONIC)) - begin < (step == WAIT ? 400 : 0))
                continue;
            took[i] = (uint32_t)(end - begin);
            least[i] = took[i] < least[i] ? took[i] : least[i];
        }
        double p = p9999_of(took, live);
        worst.run_p9999 = p < worst.run_p9999 ? p : worst.run_p9999;
        nxm_blocks_free(table);
        untouch();
    }
    worst.p9999 = p9999_of(least, live);
    worst.max = least[live - 1] / 1e3;
    free(took);
    free(least);
    return worst;
}

static long faults(void)
{
    struct rusage usage;

    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_minflt;
}

/* Pages that the table has populated by a call are no faults of the insertion. */
static long populated;

int madvise(void *at, size_t bytes, int advice)
{
    long before = faults();
    int result = (int)syscall(SYS_madvise, at, bytes, advice);

    populated += faults() - before;
    return result;
}

/* How many of so many insertions were interrupted by a fault, and how many pages were populated instead. */
static void print_faulting(uint64_t live)
{
    struct nxm_blocks *table = filled(0);
    uint64_t faulting = 0;

    for (uint64_t i = 0; i < live; i++) {
        long before = faults() - populated;

        insert(table, BASE + (i + 1) * BLOCK, 1);
        faulting += faults() - populated > before;
    }
    nxm_blocks_free(table);
    printf("%ju %ld\n", (uintmax_t)faulting, populated);
}

/* --- looking ------------------------------------------------------------------------------------------------------------------ */

static double looking(uint64_t live, uint64_t inside)
{
    struct nxm_blocks *table = filled(live);
    uint64_t seed = 88172645463325252u, begin = now_ns(CLOCK_THREAD_CPUTIME_ID);
    const uint64_t count = 1000000;
    struct nxm_block block;

    for (uint64_t i = 0; i < count; i++)
        check(nxm_blocks_containing(table, BASE + (next_random(&seed) % live + 1) * BLOCK + inside, &block));
    double each = (double)(now_ns(CLOCK_THREAD_CPUTIME_ID) - begin) / (double)count;
    nxm_blocks_free(table);
    return each;
}

static bool add_bytes(void *sum, const struct nxm_block *block)
{
    *(uint64_t *)sum += block->bytes;
    return true;
}

/* The walk alone, and what grouping and sorting add to it: the least of each, for of a difference the least is what a disturbed walk
 * leaves. */
static void grouping(uint64_t live, double *ret_walk, double *ret_grouping)
{
    struct nxm_blocks *table = filled(live);
    double least = 1e9;

    *ret_walk = 1e9;
    for (int run = 0; run < RUNS; run++) {
        uint64_t sum = 0, begin = now_ns(CLOCK_THREAD_CPUTIME_ID), walked, grouped;
        struct nxm_leaks leaks;

        nxm_blocks_each(table, add_bytes, &sum);
        walked = now_ns(CLOCK_THREAD_CPUTIME_ID);
        nxm_leaks_init(&leaks, &table, 1, NULL);
        grouped = now_ns(CLOCK_THREAD_CPUTIME_ID);
        nxm_leaks_clear(&leaks);
        double walk = (double)(walked - begin) / 1e6, all = (double)(grouped - walked) / 1e6;
        *ret_walk = walk < *ret_walk ? walk : *ret_walk;
        least = all < least ? all : least;
    }
    *ret_grouping = least - *ret_walk;
    nxm_blocks_free(table);
}

int main(int argc, char **argv)
{
    double at_0, at_1e6, one, eight, one_malloc, walk, groups;
    struct worst inserted, touched;

    if (argc == 4 && strcmp(argv[1], "pair") == 0) {
        struct nxm_blocks *table = filled(strtoull(argv[2], NULL, 0));

        pairs(table, BASE, strtoull(argv[3], NULL, 0));
        return 0;
    }
    if (argc == 3 && strcmp(argv[1], "faults") == 0) {
        print_faulting(strtoull(argv[2], NULL, 0));
        return 0;
    }
    say("table-lifo-0", at_0 = lifo(0), "ns");
    say("table-lifo-1e3", lifo(1000), "ns");
    say("table-lifo-1e5", lifo(100000), "ns");
    say("table-lifo-1e6", at_1e6 = lifo(1000000), "ns");
    say("table-lifo-1e6/0", at_1e6 / at_0, "ratio");
    one = churn(100000);
    one_malloc = churn_malloc(100000);
    say("table-churn-1e5", one, "ns");
    say("malloc-churn-1e5", one_malloc, "ns");
    say("table-churn-1e5/malloc", one / one_malloc, "ratio");
    one = churn(1000000);
    one_malloc = churn_malloc(1000000);
    say("table-churn-1e6", one, "ns");
    say("malloc-churn-1e6", one_malloc, "ns");
    say("table-churn-1e6/malloc", one / one_malloc, "ratio");
    say("table-threads-1", one = threads(1), "ns");
    say("table-threads-8", eight = threads(8), "ns");
    say("table-threads-8/1", eight / one, "ratio");
    for (uint64_t live = 100000; live <= 1000000; live += live < 200000 ? 20000 : 200000) {
        char name[64];

        snprintf(name, sizeof name, "table-memory-%ju", (uintmax_t)live);
        say(name, memory(live), "bytes");
        snprintf(name, sizeof name, "table-memory-%ju-owed", (uintmax_t)live); /* 1 MiB for all, and of the device's memory 0.025% */
        say(name, 128 + 0.00025 * BLOCK + (double)(1 << 20) / (double)live, "bytes");
    }
    inserted = worst(1000000, INSERT);
    touched = worst(1000000, TOUCH);
    say("table-insert-p99.99-1e6", inserted.p9999, "us");
    say("table-insert-max-1e6", inserted.max, "us");
    say("table-insert-run-p99.99-1e6", inserted.run_p9999, "us");
    say("table-touch-p99.99-1e6", touched.p9999, "us");
    say("table-touch-max-1e6", touched.max, "us");
    say("table-no-insert-run-p99.99-1e6", worst(1000000, WAIT).run_p9999, "us");
    say("table-find-1e6", looking(1000000, 0), "ns");
    say("table-inside-1e6", looking(1000000, 1000), "ns");
    grouping(1000000, &walk, &groups);
    say("report-walk-1e6", walk, "ms");
    say("report-grouping-1e6", groups, "ms");
    return 0;
}
