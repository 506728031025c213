/* core/stack_span: how far a stack may be read, over memory with walls in it. Runs under the emulator too (tests/arm). */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "core/stack_span.h"

#define PAGE 4096u
#define PAGES 8u

/* Eight pages between two walls. */
static char *memory_between_walls(void)
{
    char *memory = mmap(NULL, (PAGES + 2) * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(memory, MAP_FAILED);
    assert_int_equal(mprotect(memory + PAGE, PAGES * PAGE, PROT_READ | PROT_WRITE), 0);
    return memory + PAGE;
}

static void give_back(char *memory)
{
    assert_int_equal(munmap(memory - PAGE, (PAGES + 2) * PAGE), 0);
    memset(&nxm_stack_spans, 0, sizeof nxm_stack_spans); /* the next test's memory may lie at the same place */
}

static void only_what_can_be_read_is_readable_and_nothing_else_changes(void **state)
{
    char *memory = memory_between_walls();
    uint32_t word = 77;

    (void)state;
    errno = 4711;
    assert_true(nxm_memory_is_readable((uintptr_t)memory));
    assert_true(nxm_memory_is_readable((uintptr_t)memory + PAGES * PAGE - 1));
    assert_true(nxm_memory_is_readable((uintptr_t)&word));
    assert_false(nxm_memory_is_readable((uintptr_t)memory - 1));
    assert_false(nxm_memory_is_readable((uintptr_t)memory + PAGES * PAGE));
    assert_false(nxm_memory_is_readable(0));
    assert_false(nxm_memory_is_readable(UINT64_MAX - 7));
    assert_false(nxm_memory_is_readable(UINT64_C(1) << 63));
    assert_int_equal(word, 77);
    assert_int_equal(errno, 4711);
    give_back(memory);
    assert_false(nxm_memory_is_readable((uintptr_t)memory));
}

static void a_span_grows_to_what_is_wanted_and_ends_at_a_wall(void **state)
{
    char *memory = memory_between_walls();
    uint64_t start = (uintptr_t)memory, wall = start + PAGES * PAGE;

    (void)state;
    assert_in_range(nxm_stack_span_end(start + 16), start + 24, start + PAGE);
    assert_in_range(nxm_stack_span_reach(start + 16, start + 3 * PAGE), start + 3 * PAGE, wall);
    assert_int_equal(nxm_stack_span_reach(start + 16, wall), wall);
    assert_int_equal(nxm_stack_span_reach(start + 16, wall + 1), wall);
    assert_int_equal(nxm_stack_span_reach(start + 16, UINT64_MAX), wall);
    assert_int_equal(nxm_stack_span_end(start + PAGE), wall); /* known by now */
    give_back(memory);
}

static void a_wall_in_between_is_not_stepped_over(void **state)
{
    char *memory = memory_between_walls();
    uint64_t start = (uintptr_t)memory;

    (void)state;
    assert_int_equal(mprotect(memory + 3 * PAGE, PAGE, PROT_NONE), 0);
    assert_int_equal(nxm_stack_span_reach(start + 4 * PAGE, start + 6 * PAGE), start + 6 * PAGE);
    /* Below the wall, though a span above it is known. */
    assert_int_equal(nxm_stack_span_reach(start, start + 6 * PAGE), start + 3 * PAGE);
    assert_int_equal(nxm_stack_span_reach(start + 2 * PAGE, start + 5 * PAGE), start + 3 * PAGE);
    give_back(memory);
}

static void a_deeper_stack_pointer_extends_the_span_downwards(void **state)
{
    char *memory = memory_between_walls();
    uint64_t start = (uintptr_t)memory, wall = start + PAGES * PAGE;

    (void)state;
    assert_int_equal(nxm_stack_span_reach(start + 6 * PAGE, wall), wall);
    assert_int_equal(nxm_stack_span_end(start + PAGE + 8), wall);
    assert_int_equal(nxm_stack_span_end(start + 6 * PAGE), wall);
    give_back(memory);
}

static void the_last_word_of_a_stack_is_its_end(void **state)
{
    char *memory = memory_between_walls();
    uint64_t wall = (uintptr_t)memory + PAGES * PAGE;

    (void)state;
    assert_int_equal(nxm_stack_span_end(wall - 8), wall);
    assert_int_equal(nxm_stack_span_end(wall - 7), 0);
    assert_int_equal(nxm_stack_span_end(wall - 1), 0);
    assert_int_equal(nxm_stack_span_end(wall), 0);
    assert_int_equal(nxm_stack_span_end(0), 0);
    assert_int_equal(nxm_stack_span_end(UINT64_MAX), 0);
    give_back(memory);
}

static void two_stacks_are_known_at_once_and_not_mixed(void **state)
{
    char *one = memory_between_walls(), *other = memory_between_walls();
    uint64_t one_wall = (uintptr_t)one + PAGES * PAGE, other_wall = (uintptr_t)other + PAGES * PAGE;

    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(nxm_stack_span_reach((uintptr_t)one, one_wall), one_wall);
        assert_int_equal(nxm_stack_span_reach((uintptr_t)other, other_wall), other_wall);
        assert_int_equal(nxm_stack_spans.before.end, one_wall);
    }
    give_back(one);
    give_back(other);
}

/* As a signal handler finds it that came while the spans were written. */
static void spans_that_may_be_half_written_are_not_used(void **state)
{
    char *memory = memory_between_walls();
    uint64_t start = (uintptr_t)memory, wall = start + PAGES * PAGE;

    (void)state;
    nxm_stack_spans.last = (struct nxm_stack_span){ start, wall + PAGE };
    nxm_stack_spans.known_end = wall + PAGE;
    nxm_stack_spans.busy = 1;
    assert_in_range(nxm_stack_span_end(start), start + 8, wall);
    assert_int_equal(nxm_stack_span_reach(start, wall + PAGE), wall);
    assert_int_equal(nxm_stack_spans.last.end, wall + PAGE);
    give_back(memory);
}

static void *in_thread(void *unused)
{
    uint64_t sp = (uintptr_t)__builtin_frame_address(0), record = (uint64_t)pthread_self();

    assert_true(sp < record);
    assert_in_range(nxm_stack_span_reach(sp, record + 64), sp, record);
    return unused;
}

static void a_thread_s_own_record_is_not_of_its_stack(void **state)
{
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, in_thread, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_can_be_read_is_readable_and_nothing_else_changes),
        cmocka_unit_test(a_span_grows_to_what_is_wanted_and_ends_at_a_wall),
        cmocka_unit_test(a_wall_in_between_is_not_stepped_over),
        cmocka_unit_test(a_deeper_stack_pointer_extends_the_span_downwards),
        cmocka_unit_test(the_last_word_of_a_stack_is_its_end),
        cmocka_unit_test(two_stacks_are_known_at_once_and_not_mixed),
        cmocka_unit_test(spans_that_may_be_half_written_are_not_used),
        cmocka_unit_test(a_thread_s_own_record_is_not_of_its_stack),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
