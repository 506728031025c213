/* How long the list of a report takes, of a million blocks from a thousand places: ours, and fprintf's for the same lines. Prints lines
 * of NAME VALUE UNIT. */
#include <stdlib.h>

#include "report_library.h"
#include "stack_library.h"

#define PLACES 1000u
#define DEPTH 10u /* of two functions in any order: so many places */

typedef uint32_t descend(unsigned levels, unsigned place);
static descend left, right, *volatile next[2] = { left, right };

static uint32_t __attribute__((noinline)) left(unsigned levels, unsigned place)
{
    uint32_t stack = levels == 0 ? bench_capture(16) : next[place & 1](levels - 1, place >> 1);

    __asm__ volatile("" ::: "memory"); /* no tail call */
    return stack;
}

static uint32_t __attribute__((noinline)) right(unsigned levels, unsigned place)
{
    volatile char locals[100];

    locals[0] = (char)levels;
    uint32_t stack = levels == 0 ? bench_capture(16) : next[place & 1](levels - 1, place >> 1);

    locals[1] = locals[0];
    return stack;
}

int main(void)
{
    static uint32_t stacks[PLACES];

    bench_prepare();
    for (unsigned i = 0; i < PLACES; i++)
        stacks[i] = next[0](DEPTH, i);
    return bench_report(stacks, PLACES, 1000000);
}
