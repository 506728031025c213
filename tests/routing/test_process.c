/* Whole processes that know nothing of the shim: what they print, open and return with it in front. A missing
 * compiler, allocator or tool is a failure, not a skip. */
#include "inside.h"

#include <glob.h>

struct outcome {
    int status;
    char output[1 << 16]; /* stdout and stderr */
};

static struct outcome last;

/* Runs a shell command; `preload` "" for none. Everything it says is in last.output. */
static void run(const char *preload, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void run(const char *preload, const char *format, ...)
{
    char command[8192];
    va_list arguments;
    size_t used = (size_t)snprintf(command, sizeof command, "export LD_PRELOAD='%s'; exec 2>&1; ", preload);
    va_start(arguments, format);
    vsnprintf(command + used, sizeof command - used, format, arguments);
    va_end(arguments);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t length = fread(last.output, 1, sizeof last.output - 1, pipe);
    last.output[length] = '\0';
    last.status = pclose(pipe);
}

static const char *shim(void) { return beside("libroutes.so"); }

static void expect(const char *output)
{
    if (last.status || strcmp(last.output, output)) fail_msg("status %d, said: %s", last.status, last.output);
}

/* A system library by pattern, wherever this machine keeps it. */
static const char *found(const char *pattern)
{
    static char path[PATH_MAX];
    static const char *const folders[] = {"/usr/lib/x86_64-linux-gnu/", "/usr/lib64/", "/usr/lib/"};
    for (size_t i = 0; i < 3; ++i) {
        glob_t matches;
        snprintf(path, sizeof path, "%s%s", folders[i], pattern);
        if (glob(path, 0, NULL, &matches)) continue;
        snprintf(path, sizeof path, "%s", matches.gl_pathv[0]);
        globfree(&matches);
        return path;
    }
    fail_msg("%s is not installed", pattern);
    return "";
}

static void programs_without_cuda_are_silent_and_succeed(void **state)
{
    (void)state;
    static const char *const commands[] = {"exec /bin/true", "exec sh -c :", "exec python3 -c pass",
                                           "exec bash -c true"};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; ++i) {
        run(shim(), "%s", commands[i]);
        expect("");
    }
    run(shim(), "exec /bin/false");
    assert_int_not_equal(last.status, 0);
    assert_string_equal(last.output, "");
}

static void nothing_is_opened_beyond_the_shim_itself(void **state)
{
    (void)state;
    const char *own = shim();
    run("", "strace -f -o /dev/stdout -e trace=open,openat /bin/true | grep -c open");
    int native = atoi(last.output);
    run("", "strace -f -o /dev/stdout -e trace=open,openat -E LD_PRELOAD=%s /bin/true | grep -c open", own);
    assert_true(native > 0);
    assert_int_equal(atoi(last.output), native + 1);
}

/* callgrind's total of a run of /bin/true; a figure that does not depend on the machine's load */
static long instructions(const char *preload)
{
    run("", "LD_PRELOAD=%s exec valgrind --tool=callgrind --callgrind-out-file=/dev/null /bin/true", preload);
    const char *at = strstr(last.output, "Collected : ");
    if (!at) fail_msg("valgrind said: %s", last.output);
    return atol(at + strlen("Collected : "));
}

static void starting_costs_a_bounded_number_of_instructions(void **state)
{
    (void)state;
    const char *bare = beside("libroutes_bare.so"); /* valgrind stops at debug information newer than itself */
    run("", "exec strip -g -o %s %s", bare, shim());
    expect("");
    long native = instructions(""), preloaded = instructions(bare);
    print_message("/bin/true: %ld instructions, preloaded %+ld\n", native, preloaded - native);
    assert_in_range(preloaded - native, 0, 60000);
}

static void a_program_is_caught_however_it_was_built(void **state)
{
    (void)state;
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", beside("."));
    run(shim(), "exec %s %s", beside("program"), folder);
    expect("cuMemAlloc_v2 by libroutes.so\n");
    run(shim(), "exec %s %s", beside("program_linked"), folder);
    expect("linked libroutes.socuMemAlloc_v2 by libroutes.so\n");
    run(shim(), "exec %s %s", beside("program_asan_clang"), folder);
    expect("cuMemAlloc_v2 by libroutes.so\n");
    run(shim(), "ASAN_OPTIONS=verify_asan_link_order=0 exec %s %s", beside("program_asan"), folder);
    expect("cuMemAlloc_v2 by libroutes.so\n");
    run("", "exec %s %s", beside("program"), folder);
    expect("cuMemAlloc_v2 by libcuda.so.1\n");
}

static void a_sanitizers_runtime_may_stand_in_front(void **state)
{
    (void)state;
    static const char *const programs[] = {"program", "program_asan"};
    char both[2 * PATH_MAX], folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", beside("."));
    snprintf(both, sizeof both, "%s:%s", found("libasan.so.*"), shim());
    for (size_t i = 0; i < 2; ++i) {
        run(both, "ASAN_OPTIONS=detect_leaks=0 exec %s %s", beside(programs[i]), folder);
        expect("cuMemAlloc_v2 by libroutes.so\n");
    }
}

static void preloaded_allocators_go_with_it_in_either_order(void **state)
{
    (void)state;
    static const char *const allocators[] = {"libjemalloc.so.2", "libmimalloc.so.2*"};
    char pair[2 * PATH_MAX], folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", beside("."));
    for (size_t i = 0; i < 4; ++i) {
        const char *allocator = found(allocators[i / 2]);
        if (i % 2) snprintf(pair, sizeof pair, "%s:%s", shim(), allocator);
        else snprintf(pair, sizeof pair, "%s:%s", allocator, shim());
        run(pair, "timeout 300 %s %s", beside("program"), folder);
        expect("cuMemAlloc_v2 by libroutes.so\n");
        run(pair, "timeout 300 python3 -c pass");
        expect("");
    }
}

static void a_programs_own_functions_in_front_are_neither_called_back_nor_taken_for_the_driver(void **state)
{
    (void)state;
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", beside("."));
    run(shim(), "LD_LIBRARY_PATH=%s/cuda exec %s %s", folder, beside("program_wraps"), folder);
    expect("own 1, wrapped 0 deep 1, runtime called 1, cuMemAlloc_v2 by libroutes.so\n");
}

static void opened_late_it_loads_and_harms_nothing(void **state)
{
    (void)state;
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", beside("."));
    run("", "exec %s %s %s", beside("program"), folder, shim());
    expect("cuMemAlloc_v2 by libcuda.so.1\n");
    run("", "exec %s %s %s", beside("program_linked"), folder, shim());
    expect("linked libcuda.so.1cuMemAlloc_v2 by libcuda.so.1\n");
}

static void a_program_of_another_c_library_survives(void **state)
{
    (void)state;
    run(shim(), "exec %s", beside("program_musl"));
    expect("");
}

/* A library preloaded behind the shim looks for the next of its own name: itself must not be found again. */
static void a_library_preloaded_behind_keeps_its_identity_as_a_caller(void **state)
{
    (void)state;
    char both[2 * PATH_MAX];
    snprintf(both, sizeof both, "%s:%s", shim(), beside("libuser.so"));
    run(both, "exec python3 -c \"import ctypes; f = ctypes.CDLL(None).cudnnCreate; "
              "f.restype = ctypes.c_void_p; print(f())\"");
    expect("None\n");
}

static void names_found_by_ctypes_are_the_hooks(void **state)
{
    (void)state;
    run(shim(), "exec python3 -c \""
                "import ctypes; c = ctypes.CDLL('%s'); p = ctypes.c_ulonglong(); c.cuMemAlloc_v2(ctypes.byref(p), 8); "
                "print(ctypes.CDLL(None).nxmem_test_hooked(b'cuMemAlloc_v2'))\"", beside("cuda/libcuda.so.1"));
    expect("1\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_without_cuda_are_silent_and_succeed),
        cmocka_unit_test(nothing_is_opened_beyond_the_shim_itself),
        cmocka_unit_test(starting_costs_a_bounded_number_of_instructions),
        cmocka_unit_test(a_program_is_caught_however_it_was_built),
        cmocka_unit_test(a_sanitizers_runtime_may_stand_in_front),
        cmocka_unit_test(preloaded_allocators_go_with_it_in_either_order),
        cmocka_unit_test(a_programs_own_functions_in_front_are_neither_called_back_nor_taken_for_the_driver),
        cmocka_unit_test(opened_late_it_loads_and_harms_nothing),
        cmocka_unit_test(a_program_of_another_c_library_survives),
        cmocka_unit_test(a_library_preloaded_behind_keeps_its_identity_as_a_caller),
        cmocka_unit_test(names_found_by_ctypes_are_the_hooks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
