/* core/stack, compiled in here under other names and with a small table. The stacks go through small
 * libraries that the test builds itself, for frames of this program count as our own and are left out. */
#define nxm_stack_prepare small_stack_prepare
#define nxm_stack_capture small_stack_capture
#define nxm_stack_frames small_stack_frames
#define nxm_stack_dropped small_stack_dropped
#define nxm_stack_adopt small_stack_adopt
#define NXM_STACK_LIMIT 128u
#include "core/stack.c"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

typedef unsigned capture_function(unsigned depth);
typedef unsigned library_call(capture_function *capture, unsigned depth);
typedef unsigned library_recursion(capture_function *capture, unsigned depth, unsigned path, unsigned levels);
typedef void library_noreturn(void (*leave)(void));

/* The function that is not exported lies behind the others: the nearest name before it would be a wrong one. */
static const char library_source[] =
    "typedef unsigned capture_function(unsigned);\n"
    "unsigned library_call(capture_function *capture, unsigned depth)\n"
    "{ volatile unsigned id = capture(depth); return id; }\n"
    "__attribute__((noinline, section(\".text.last\"))) static unsigned hidden(capture_function *capture, unsigned depth)\n"
    "{ volatile unsigned id = capture(depth); return id; }\n"
    "unsigned library_hidden(capture_function *capture, unsigned depth)\n"
    "{ volatile unsigned id = hidden(capture, depth); return id; }\n"
    "__attribute__((noinline)) unsigned library_recursion(capture_function *capture, unsigned depth, unsigned path, unsigned levels)\n"
    "{ volatile unsigned id;\n"
    "  if (levels == 0) id = capture(depth);\n"
    "  else if (path & 1) id = library_recursion(capture, depth, path >> 1, levels - 1);\n"
    "  else { __asm__ volatile(\"nop\"); id = library_recursion(capture, depth, path >> 1, levels - 1); __asm__ volatile(\"nop\"); }\n"
    "  return id; }\n"
    "void library_noreturn(void (*leave)(void)) { leave(); __builtin_unreachable(); }\n"
    "unsigned library_after(void) { return 1; }\n";

static volatile unsigned two = 2, three = 3; /* bounds that a compiler does not know */

static char directory[] = "/tmp/nxm-stack-XXXXXX";

static void library_path(const char *name, char *ret_path, size_t capacity)
{
    snprintf(ret_path, capacity, "%s/%s.so", directory, name);
}

static int build(const char *name)
{
    const char *compiler = getenv("CC") != NULL ? getenv("CC") : "cc";
    char source[128], path[128], command[512];
    FILE *file;

    library_path(name, path, sizeof path);
    snprintf(source, sizeof source, "%s/source.c", directory);
    file = fopen(source, "w");
    if (file == NULL || fputs(library_source, file) < 0 || fclose(file) != 0)
        return -1;
    snprintf(command, sizeof command, "%s -shared -fPIC -O1 -fno-optimize-sibling-calls -fasynchronous-unwind-tables -o %s %s",
             compiler, path, source);
    return system(command);
}

static int group_setup(void **state)
{
    (void)state;
    if (mkdtemp(directory) == NULL || build("liba") != 0 || build("libb") != 0) {
        print_error("no compiler to build the libraries with\n");
        return -1;
    }
    return 0;
}

static int group_teardown(void **state)
{
    char command[64];

    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command);
}

static void *open_library(const char *name)
{
    char path[128];
    void *library;

    library_path(name, path, sizeof path);
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    return library;
}

static uint64_t load_address(void *library)
{
    struct link_map *map = NULL;

    assert_int_equal(dlinfo(library, RTLD_DI_LINKMAP, &map), 0);
    return map->l_addr;
}

static void assert_module(const struct nxm_frame *frame, const char *name)
{
    char path[128];

    library_path(name, path, sizeof path);
    assert_string_equal(frame->module, path);
}

/* All from one call site: a loop that no compiler unrolls. fail_first: the first request for memory fails. */
static __attribute__((noinline)) void capture_times(library_call *call, unsigned depth, volatile bool fail_first,
                                                    uint32_t *ret_ids, volatile unsigned count)
{
    for (volatile unsigned i = 0; i < count; i++) {
        nxm_mem_fail_at(fail_first);
        fail_first = false;
        ret_ids[i] = call(nxm_stack_capture, depth);
        nxm_mem_fail_at(0);
    }
}

static void depth_zero_is_no_stack(void **state)
{
    void *library = open_library("liba");
    library_call *call = (library_call *)dlsym(library, "library_call");

    (void)state;
    assert_int_equal(call(nxm_stack_capture, 0), 0);
    assert_int_equal(nxm_stack_dropped(), 0);
    dlclose(library);
}

static void the_first_frame_is_the_caller_outside_our_own_library(void **state)
{
    void *library = open_library("liba");
    library_call *call = (library_call *)dlsym(library, "library_call");
    struct nxm_frame frame;
    uint32_t id = call(nxm_stack_capture, 16);

    (void)state;
    assert_int_not_equal(id, 0);
    assert_true(nxm_stack_frames(id, &frame, 1) >= 2);
    assert_module(&frame, "liba");
    assert_string_equal(frame.symbol, "library_call");
    assert_int_equal(frame.pc - frame.offset, load_address(library));
    assert_int_equal(frame.pc - frame.symbol_offset, (uintptr_t)call);
    assert_in_range(frame.symbol_offset, 1, 200);
    dlclose(library);
}

static void a_frame_of_ours_below_the_top_is_kept_with_the_programs_path(void **state)
{
    void *library = open_library("liba");
    library_call *call = (library_call *)dlsym(library, "library_call");
    struct nxm_frame frames[2];
    char self[512];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);

    (void)state;
    assert_true(length > 0);
    self[length] = '\0';
    assert_true(nxm_stack_frames(call(nxm_stack_capture, 16), frames, 2) >= 2);
    assert_string_equal(frames[1].module, self);
    dlclose(library);
}

static void a_function_that_is_not_exported_has_no_name_rather_than_a_wrong_one(void **state)
{
    void *library = open_library("liba");
    library_call *call = (library_call *)dlsym(library, "library_hidden");
    struct nxm_frame frames[2];

    (void)state;
    assert_true(nxm_stack_frames(call(nxm_stack_capture, 16), frames, 2) >= 2);
    assert_module(&frames[0], "liba");
    assert_null(frames[0].symbol);
    assert_int_equal(frames[0].pc - frames[0].offset, load_address(library));
    assert_string_equal(frames[1].symbol, "library_hidden");
    dlclose(library);
}

static jmp_buf escape;
static uint32_t escaped_id;

static void capture_and_escape(void)
{
    escaped_id = nxm_stack_capture(16);
    longjmp(escape, 1);
}

static void a_call_that_ends_its_function_is_not_taken_for_the_next_function(void **state)
{
    void *library = open_library("liba");
    library_noreturn *call = (library_noreturn *)dlsym(library, "library_noreturn");
    struct nxm_frame frame;

    (void)state;
    if (setjmp(escape) == 0)
        call(capture_and_escape);
    assert_true(nxm_stack_frames(escaped_id, &frame, 1) >= 1);
    assert_non_null(frame.symbol);
    assert_string_equal(frame.symbol, "library_noreturn");
    dlclose(library);
}

static void the_same_stack_has_the_same_id_and_another_depth_another(void **state)
{
    void *library = open_library("liba");
    library_call *call = (library_call *)dlsym(library, "library_call");
    uint32_t whole[3], cut[3], repeated[3];

    (void)state;
    capture_times(call, 16, false, whole, 3);
    capture_times(call, 2, false, cut, 3);
    assert_int_equal(whole[0], whole[1]);
    assert_int_equal(whole[0], whole[2]);
    assert_int_equal(cut[0], cut[1]);
    assert_int_not_equal(cut[0], whole[0]);
    assert_int_equal(nxm_stack_frames(cut[0], NULL, 0), 2);
    capture_times(call, 2, false, repeated, 3); /* two frames do not reach this line */
    assert_int_equal(repeated[0], cut[0]);
    dlclose(library);
}

static void depth_is_bounded_and_a_small_buffer_is_respected(void **state)
{
    void *library = open_library("liba");
    library_recursion *recurse = (library_recursion *)dlsym(library, "library_recursion");
    struct nxm_frame *frames = malloc(3 * sizeof *frames); /* exact: one too many is seen */
    uint32_t id = recurse(nxm_stack_capture, 4000, 0, 100);

    (void)state;
    assert_non_null(frames);
    assert_int_equal(nxm_stack_frames(id, frames, 3), NXM_STACK_DEPTH_MAX);
    assert_string_equal(frames[2].symbol, "library_recursion");
    free(frames);
    dlclose(library);
}

static void an_id_never_given_out_has_no_frames(void **state)
{
    struct nxm_frame frame;

    (void)state;
    assert_int_equal(nxm_stack_frames(0, &frame, 1), 0);
    assert_int_equal(nxm_stack_frames(NXM_STACK_LIMIT, &frame, 1), 0); /* there may come to be as many */
    assert_int_equal(nxm_stack_frames(100000, &frame, 1), 0);
    assert_int_equal(nxm_stack_frames(UINT32_MAX, &frame, 1), 0);
}

static void names_outlive_the_library(void **state)
{
    void *library = open_library("liba");
    library_call *call = (library_call *)dlsym(library, "library_call");
    struct nxm_frame frame;
    uint32_t id = call(nxm_stack_capture, 16);

    (void)state;
    assert_int_equal(dlclose(library), 0);
    assert_true(nxm_stack_frames(id, &frame, 1) >= 1);
    assert_module(&frame, "liba");
    assert_string_equal(frame.symbol, "library_call");
}

/* Opens a, b and a again; whether all three came to lie at the same place. */
static bool capture_in_turn(uint32_t ret_ids[3])
{
    static const char *const names[] = { "liba", "libb", "liba" };
    uint64_t bases[3];

    for (unsigned i = 0; i < three; i++) {
        void *library = open_library(names[i]);
        library_call *call = (library_call *)dlsym(library, "library_call");

        bases[i] = load_address(library);
        ret_ids[i] = call(nxm_stack_capture, 16);
        assert_int_equal(dlclose(library), 0);
    }
    return bases[0] == bases[1] && bases[0] == bases[2];
}

static void another_library_at_the_same_place_is_another_stack(void **state)
{
    uint32_t ids[3];
    struct nxm_frame frame;
    bool same_place = false;

    (void)state;
    for (unsigned attempt = 0; attempt < 10 * two && !same_place; attempt++)
        same_place = capture_in_turn(ids);
    assert_true(same_place); /* else nothing is proved here */
    assert_int_not_equal(ids[0], ids[1]);
    assert_int_equal(ids[0], ids[2]);
    assert_true(nxm_stack_frames(ids[0], &frame, 1) >= 1);
    assert_module(&frame, "liba");
    assert_true(nxm_stack_frames(ids[1], &frame, 1) >= 1);
    assert_module(&frame, "libb");
}

static void equal_names_are_one_string(void **state)
{
    void *library = open_library("liba");
    library_recursion *recurse = (library_recursion *)dlsym(library, "library_recursion");
    struct nxm_frame frames[4];

    (void)state;
    assert_true(nxm_stack_frames(recurse(nxm_stack_capture, 16, 1, 3), frames, 4) >= 4);
    assert_ptr_equal(frames[0].module, frames[3].module);
    assert_ptr_equal(frames[0].symbol, frames[3].symbol);
    dlclose(library);
}

static void a_capture_without_memory_is_counted_and_the_next_one_works(void **state)
{
    void *library = open_library("liba");
    library_call *call = (library_call *)dlsym(library, "library_call");
    uint64_t before = nxm_stack_dropped();
    uint32_t ids[3];

    (void)state;
    frame_pile.used = NXM_PILE_PIECE; /* so that the next stack needs a new piece */
    capture_times(call, 7, true, ids, 3);
    assert_int_equal(ids[0], 0);
    assert_int_equal(nxm_stack_dropped(), before + 1);
    assert_int_not_equal(ids[1], 0);
    assert_int_equal(ids[1], ids[2]);
    dlclose(library);
}

#define THREADS 4
#define PATHS 8

static library_recursion *shared_recursion;
static pthread_barrier_t barrier;

static void *capture_all_paths(void *argument)
{
    uint32_t *ids = argument;

    pthread_barrier_wait(&barrier);
    for (unsigned round = 0; round < 25 * two; round++) {
        for (unsigned path = 0; path < 4 * two; path++) {
            uint32_t id = shared_recursion(nxm_stack_capture, 16, path, 3);

            assert_true(round == 0 || id == ids[path]);
            ids[path] = id;
        }
    }
    return NULL;
}

static void threads_that_meet_a_new_stack_together_get_one_id(void **state)
{
    void *library = open_library("liba");
    static uint32_t ids[THREADS][PATHS];
    pthread_t threads[THREADS];

    (void)state;
    shared_recursion = (library_recursion *)dlsym(library, "library_recursion");
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, capture_all_paths, ids[i]), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    pthread_barrier_destroy(&barrier);
    for (int path = 0; path < PATHS; path++) {
        assert_int_not_equal(ids[0][path], 0);
        for (int i = 1; i < THREADS; i++)
            assert_int_equal(ids[i][path], ids[0][path]);
        for (int other = 0; other < path; other++)
            assert_int_not_equal(ids[0][path], ids[0][other]);
    }
    dlclose(library);
}

/* The last test: it fills the table. */
static void a_full_table_drops_and_counts_and_still_knows_the_old(void **state)
{
    void *library = open_library("liba");
    library_recursion *recurse = (library_recursion *)dlsym(library, "library_recursion");
    uint64_t before = nxm_stack_dropped();
    uint32_t ids[2][2 * NXM_STACK_LIMIT], none = 0;

    (void)state;
    for (unsigned round = 0; round < two; round++) {
        for (unsigned path = 0; path < two * NXM_STACK_LIMIT; path++)
            ids[round][path] = recurse(nxm_stack_capture, 16, path, 9);
    }
    for (unsigned path = 0; path < 2 * NXM_STACK_LIMIT; path++) {
        assert_int_equal(ids[0][path], ids[1][path]);
        assert_true(ids[0][path] <= NXM_STACK_LIMIT);
        none += ids[0][path] == 0;
    }
    assert_true(none >= NXM_STACK_LIMIT);
    assert_true(none < 2 * NXM_STACK_LIMIT);
    assert_int_equal(nxm_stack_dropped(), before + 2 * (uint64_t)none);
    dlclose(library);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(depth_zero_is_no_stack),
        cmocka_unit_test(the_first_frame_is_the_caller_outside_our_own_library),
        cmocka_unit_test(a_frame_of_ours_below_the_top_is_kept_with_the_programs_path),
        cmocka_unit_test(a_function_that_is_not_exported_has_no_name_rather_than_a_wrong_one),
        cmocka_unit_test(a_call_that_ends_its_function_is_not_taken_for_the_next_function),
        cmocka_unit_test(the_same_stack_has_the_same_id_and_another_depth_another),
        cmocka_unit_test(depth_is_bounded_and_a_small_buffer_is_respected),
        cmocka_unit_test(an_id_never_given_out_has_no_frames),
        cmocka_unit_test(names_outlive_the_library),
        cmocka_unit_test(another_library_at_the_same_place_is_another_stack),
        cmocka_unit_test(equal_names_are_one_string),
        cmocka_unit_test(a_capture_without_memory_is_counted_and_the_next_one_works),
        cmocka_unit_test(threads_that_meet_a_new_stack_together_get_one_id),
        cmocka_unit_test(a_full_table_drops_and_counts_and_still_knows_the_old),
    };

    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
