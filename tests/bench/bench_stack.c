/* How much a call stack costs: ours by tables, by frame pointers, glibc's backtrace, interning.
 *
 *   bench_stack                    prints lines of NAME VALUE UNIT
 *   bench_stack WHAT DEPTH COUNT   does one of them so often, for callgrind: walk, chain, libc, capture, intern
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "stack_library.h"

typedef uint32_t take(unsigned depth);

static const struct {
    const char *name;
    take *function;
} takes[] = {
    { "walk", bench_walk },
    { "chain", bench_chain },
    { "libc", bench_libc },
    { "capture", bench_capture },
    { "intern", bench_intern },
};

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Ends the stack: `count` captures from here, and how many nanoseconds one took. */
static double __attribute__((noinline)) repeat(take *function, unsigned depth, unsigned long count)
{
    double start = now();
    uint32_t got = 0;

    for (unsigned long i = 0; i < count; i++)
        got = function(depth);
    if (got == 0 && function != bench_chain) /* code without frame pointers has none */
        fprintf(stderr, "bench_stack: no stack\n");
    return (now() - start) / (double)count;
}

/* Frames of a program as programs have them: several functions, some with locals, deeper than the deepest capture. */
typedef double descend(unsigned levels, take *function, unsigned depth, unsigned long count);
static descend small, large, *volatile next[2] = { small, large };

static double __attribute__((noinline)) small(unsigned levels, take *function, unsigned depth, unsigned long count)
{
    double result = levels == 0 ? repeat(function, depth, count) : next[levels % 2](levels - 1, function, depth, count);

    __asm__ volatile("" ::: "memory"); /* no tail call */
    return result;
}

static double __attribute__((noinline)) large(unsigned levels, take *function, unsigned depth, unsigned long count)
{
    volatile char locals[400];
    double result;

    locals[0] = (char)levels;
    result = small(levels, function, depth, count);
    locals[1] = locals[0];
    return result;
}

static double best(take *function, unsigned depth)
{
    double least = 1e18;

    for (int run = 0; run < 5; run++) {
        double took = small(40, function, depth, 20000);
        least = took < least ? took : least;
    }
    return least;
}

static int print_all(void)
{
    for (unsigned depth = 8; depth <= 32; depth *= 2) {
        double libc = best(bench_libc, depth), walk = best(bench_walk, depth), capture = best(bench_capture, depth);

        printf("stack_libc_%u %.1f ns\n", depth, libc);
        printf("stack_walk_%u %.1f ns\n", depth, walk);
        printf("stack_chain_%u %.1f ns\n", depth, best(bench_chain, depth));
        printf("stack_intern_%u %.1f ns\n", depth, best(bench_intern, depth));
        printf("stack_capture_%u %.1f ns\n", depth, capture);
        printf("stack_capture_of_libc_%u %.4f ratio\n", depth, capture / libc);
    }
    return 0;
}

int main(int argc, char **argv)
{
    bench_prepare();
    if (argc == 1)
        return print_all();
    for (size_t i = 0; argc == 4 && i < sizeof takes / sizeof *takes; i++) {
        if (strcmp(argv[1], takes[i].name) == 0) {
            small(40, takes[i].function, (unsigned)atoi(argv[2]), strtoul(argv[3], NULL, 10));
            return 0;
        }
    }
    fprintf(stderr, "usage: bench_stack [walk|chain|libc|capture|intern DEPTH COUNT]\n");
    return 2;
}
