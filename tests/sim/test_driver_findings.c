/* How the oracle tells what it found: codes, counters, both histories, the lists at exit. What is printed is read from a
 * process of its own: this program, started again with the name of a deed. */
#include "driver_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- deeds --------------------------------------------------------------------------------------------------------- */

static void start(void)
{
    CUcontext c;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&c, 0) || cuCtxSetCurrent(c)) exit(98);
}

static void free_then_launch_its_graph(void)
{
    CUdeviceptr p, q;
    CUgraph g;
    CUgraphExec x;
    CUstream s;
    start();
    if (cuMemAlloc(&p, 4096) || cuStreamCreate(&s, CU_STREAM_NON_BLOCKING)) exit(98);
    if (cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL) || cuMemsetD8Async(p, 1, 4096, s)) exit(98);
    if (cuStreamEndCapture(s, &g) || cuGraphInstantiate(&x, g, 0) || cuMemFree(p) || cuMemAlloc(&q, 4096)) exit(98);
    if (cuGraphLaunch(x, s) || cuStreamSynchronize(s)) exit(98);
}

static void free_twice(void)
{
    CUdeviceptr p;
    start();
    if (cuMemAlloc(&p, 4096) || cuMemFree(p) || cuMemFree(p) != CUDA_ERROR_INVALID_VALUE) exit(98);
}

static CUstream two[2];

static void two_streams(void)
{
    start();
    for (int i = 0; i < 2; i++)
        if (cuStreamCreate(&two[i], CU_STREAM_NON_BLOCKING)) exit(98);
    fprintf(stderr, "streams %p %p\n", (void *)two[0], (void *)two[1]);
}

static void free_before_the_use(void)
{
    CUdeviceptr p;
    two_streams();
    if (cuMemAllocAsync(&p, 4096, two[0]) || cuStreamSynchronize(two[0]) || sim_hold(two[1])) exit(98);
    if (cuMemsetD8Async(p, 1, 4096, two[1]) || cuMemFreeAsync(p, two[0])) exit(98);
    if (sim_release(two[1])) exit(98);
}

static void use_before_the_allocation(void)
{
    CUdeviceptr p;
    two_streams();
    if (sim_hold(two[0]) || cuMemAllocAsync(&p, 4096, two[0]) || cuMemsetD8Async(p, 1, 4096, two[1])) exit(98);
    if (sim_release(two[0])) exit(98);
}

static void leave_things(void)
{
    CUdeviceptr p, q;
    CUstream s;
    CUevent e;
    start();
    if (cuMemAlloc(&p, 1000) || cuMemAlloc(&q, 24)) exit(98);
    if (cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) || cuEventCreate(&e, 0)) exit(98);
}

static void leave_nothing(void)
{
    CUdeviceptr p;
    start();
    if (cuMemAlloc(&p, 1000) || cuMemFree(p)) exit(98);
}

static void end_a_capture(void)
{
    CUdeviceptr p;
    CUstream s;
    start();
    if (cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) || cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL)) exit(98);
    if (cuMemAlloc(&p, 64) != CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) exit(98);
}

static const struct { const char *name; void (*run)(void); } deeds[] = {
    { "free_then_launch_its_graph", free_then_launch_its_graph },
    { "free_twice", free_twice },
    { "free_before_the_use", free_before_the_use },
    { "use_before_the_allocation", use_before_the_allocation },
    { "leave_things", leave_things },
    { "leave_nothing", leave_nothing },
    { "end_a_capture", end_a_capture },
};

static int run(const char *name)
{
    for (size_t i = 0; i < sizeof deeds / sizeof *deeds; i++)
        if (strcmp(deeds[i].name, name) == 0) deeds[i].run();
    return 0;
}

/* What a deed prints on stderr, with one more variable set. */
static const char *said(const char *deed, const char *variable)
{
    static char text[1 << 14];
    int ends[2], status;
    size_t length = 0;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        unsetenv("SIMCUDA_QUIET");
        if (variable) setenv(variable, "1", 1);
        execl("/proc/self/exe", "test_driver_findings", deed, (char *)NULL);
        _exit(96);
    }
    close(ends[1]);
    for (ssize_t n; (n = read(ends[0], text + length, sizeof text - 1 - length)) > 0;) length += (size_t)n;
    text[length] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return text;
}

#define assert_says(text, word) assert_non_null(strstr(text, word))

/* --- tests ----------------------------------------------------------------------------------------------------------- */

static void a_finding_tells_both_histories_and_who_is_there_now(void **state)
{
    (void)state;
    const char *text = said("free_then_launch_its_graph", NULL);
    assert_says(text, "[use-after-reuse] ");
    assert_says(text, "work submitted by cuMemsetD8Async, thread 1, clock 0\n"
                      "simcuda:   launched by cuGraphLaunch, thread 1, clock 0\n");
    assert_says(text, "(id 1)\nsimcuda:   allocated by cuMemAlloc_v2, thread 1, clock 0\n"
                      "simcuda:   freed by cuMemFree_v2, thread 1, clock 0\n");
    assert_says(text, "(id 2)\nsimcuda:   allocated by cuMemAlloc_v2");
}

/* What the deed says, and that it has this line about that one of its two streams. */
static void tells_of_stream(const char *deed, const char *code, int which, const char *line)
{
    const char *text = said(deed, NULL);
    unsigned long long streams[2];
    char expected[200];
    assert_int_equal(sscanf(text, "streams %llx %llx", &streams[0], &streams[1]), 2);
    snprintf(expected, sizeof expected, "%s, in stream 0x%llx\n", line, streams[which]);
    assert_says(text, code);
    assert_says(text, expected);
}

static void what_is_not_ordered_tells_of_both(void **state)
{
    (void)state;
    tells_of_stream("free_before_the_use", "[unordered-free] cuMemFreeAsync", 1,
                    "work submitted by cuMemFreeAsync, thread 1, clock 1\n"
                    "simcuda:   not behind cuMemsetD8Async, thread 1, clock 1");
    tells_of_stream("use_before_the_allocation", "[unordered-use] cuMemsetD8Async", 0,
                    "work submitted by cuMemsetD8Async, thread 1, clock 0\n"
                    "simcuda:   not behind cuMemAllocAsync, thread 1, clock 0");
}

static void a_double_free_tells_who_freed_it_first(void **state)
{
    (void)state;
    const char *text = said("free_twice", "SIMCUDA_NOTICES");
    assert_says(text, "notice [double-free] cuMemFree_v2");
    assert_says(text, "allocated by cuMemAlloc_v2, thread 1");
    assert_says(text, "freed by cuMemFree_v2, thread 1");
}

static void notices_are_printed_when_asked_for(void **state)
{
    (void)state;
    assert_string_equal(said("end_a_capture", NULL), "");
    assert_says(said("end_a_capture", "SIMCUDA_NOTICES"), "notice [capture-invalidated] cuMemAlloc_v2");
}

static void what_is_left_at_exit_is_listed_by_kind(void **state)
{
    (void)state;
    assert_string_equal(said("leave_things", NULL), "");
    const char *text = said("leave_things", "SIMCUDA_LEAKS");
    assert_says(text, "leak: 2 device block(s), 1024 bytes\n");
    assert_says(text, "leak: 1 stream handle(s)\n");
    assert_says(text, "leak: 1 event handle(s)\n");
    assert_says(text, " of 1000 bytes, made by cuMemAlloc_v2, thread 1, clock 0\n");
    assert_says(text, " of 24 bytes, made by cuMemAlloc_v2, thread 1, clock 0\n");
    assert_says(text, ", made by cuStreamCreate, thread 1, clock 0\n");
    assert_says(text, ", made by cuEventCreate, thread 1, clock 0\n");
    assert_says(said("leave_nothing", "SIMCUDA_LEAKS"), "no leaks\n");
}

static void findings_are_counted_by_code(void **state)
{
    (void)state;
    CUdeviceptr p;
    assert_ok(cuMemAlloc(&p, 4096));
    assert_ok(cuMemFree(p));
    assert_int_equal(sim_findings("double-free"), 0);
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemFree(p));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuMemFree(p));
    assert_int_equal(sim_findings("double-free"), 2);
    assert_int_equal(sim_misuses() + sim_violations(), 0); /* the driver said no: nothing came of it */
    assert_int_equal(sim_findings("no-such-code"), UINT64_MAX);
    sim_reset();
    assert_int_equal(sim_findings("double-free"), 0);
    size_t kinds = 0;
    for (const char *code; (code = sim_finding_kind(kinds)); kinds++) assert_int_equal(sim_findings(code), 0);
    assert_true(kinds >= 19);
}

static void a_second_allocation_at_the_address_may_be_freed(void **state)
{
    (void)state;
    CUdeviceptr p, q;
    assert_ok(cuMemAlloc(&p, 4096));
    assert_ok(cuMemFree(p));
    assert_ok(cuMemAlloc(&q, 4096));
    assert_int_equal(p, q);
    assert_ok(cuMemFree(q));
    assert_int_equal(sim_findings("double-free"), 0);
}

static void freed_memory_is_poisoned_unless_told_not_to(void **state)
{
    (void)state;
    enum { BYTES = 512 };
    for (int poison = 0; poison <= 1; poison++) {
        CUdeviceptr p, q;
        unsigned char bytes[BYTES];
        sim_set_poison(poison);
        assert_ok(cuMemAlloc(&p, BYTES));
        assert_ok(cuMemsetD8(p, 7, BYTES));
        assert_ok(cuMemFree(p));
        assert_ok(cuMemAlloc(&q, BYTES));
        assert_int_equal(q, p);
        assert_ok(cuMemcpyDtoH(bytes, q, BYTES));
        for (int i = 0; i < BYTES; i++) assert_int_equal(bytes[i], poison ? 0xdb : 7);
        assert_ok(cuMemFree(q));
    }
}

/* Nor does memory keep its bytes when the stream gives it to itself. */
static void memory_that_a_stream_reuses_is_poisoned_too(void **state)
{
    (void)state;
    CUstream s = new_stream();
    CUdeviceptr p, q;
    unsigned char bytes[512];
    assert_ok(cuMemAllocAsync(&p, 512, s));
    assert_ok(cuMemsetD8Async(p, 7, 512, s));
    assert_ok(sim_hold(s));
    assert_ok(cuMemFreeAsync(p, s));
    assert_ok(cuMemAllocAsync(&q, 512, s));
    assert_int_equal(q, p);
    assert_ok(sim_release(s));
    assert_ok(cuMemcpyDtoHAsync(bytes, q, 512, s));
    assert_ok(cuStreamSynchronize(s));
    for (int i = 0; i < 512; i++) assert_int_equal(bytes[i], 0xdb);
    assert_ok(cuMemsetD8Async(q, 8, 512, s));
    assert_ok(cuMemcpyDtoHAsync(bytes, q, 512, s));
    assert_ok(cuStreamSynchronize(s));
    assert_int_equal(bytes[0], 8);
    assert_ok(cuMemFreeAsync(q, s));
    assert_int_equal(sim_violations(), 0);
}

/* The stream's address may be reused at once, and what it held is then still there. */
static void a_release_that_has_not_run_poisons_nothing(void **state)
{
    (void)state;
    CUstream s = new_stream();
    CUdeviceptr p;
    assert_ok(cuMemAllocAsync(&p, 512, s));
    assert_ok(cuMemsetD8Async(p, 9, 512, s));
    assert_ok(cuStreamSynchronize(s));
    assert_ok(sim_hold(s));
    assert_ok(cuMemFreeAsync(p, s));
    assert_int_equal(*(volatile unsigned char *)(uintptr_t)p, 9);
    assert_ok(sim_release(s));
    assert_ok(cuStreamSynchronize(s));
    assert_int_equal(*(volatile unsigned char *)(uintptr_t)p, 0xdb);
}

static int held_by_me;

static int is_held(void *lock)
{
    return lock == &held_by_me && held_by_me;
}

static void a_call_with_a_registered_lock_is_a_misuse(void **state)
{
    (void)state;
    size_t a, b;
    assert_ok(sim_lock_register(&held_by_me, is_held));
    assert_cu(CUDA_ERROR_INVALID_VALUE, sim_lock_register(NULL, is_held));
    assert_ok(cuMemGetInfo(&a, &b));
    assert_int_equal(sim_findings("call-with-lock"), 0);
    held_by_me = 1;
    assert_ok(cuMemGetInfo(&a, &b));
    assert_int_equal(sim_findings("call-with-lock"), 1);
    sim_lock_unregister(&held_by_me);
    assert_ok(cuMemGetInfo(&a, &b));
    assert_int_equal(sim_findings("call-with-lock"), 1);
    held_by_me = 0;
}

static void leaks_are_what_the_program_made(void **state)
{
    (void)state;
    CUdeviceptr p;
    assert_int_equal(sim_leaks(), 0);
    CUstream s = new_stream();
    assert_ok(cuMemAlloc(&p, 64));
    assert_int_equal(sim_leaks(), 2);
    assert_ok(cuMemFree(p));
    assert_ok(cuStreamDestroy(s));
    assert_int_equal(sim_leaks(), 0);
}

static void assert_leak_line(size_t index, const char *expected)
{
    char line[200] = "";
    assert_int_equal(sim_leak_get(index, line, sizeof line), expected != NULL);
    if (expected) assert_string_equal(line, expected);
}

static void leaks_name_the_oldest_few_of_each_kind(void **state)
{
    (void)state;
    enum { MANY = 5 };
    CUevent events[MANY];
    CUdeviceptr p;
    char expected[200];
    assert_ok(cuMemAlloc(&p, 64));
    for (int i = 0; i < MANY; i++) assert_ok(cuEventCreate(&events[i], 0));
    unsigned long long clock = sim_clock();
    assert_leak_line(0, "leak: 1 device block(s), 64 bytes");
    snprintf(expected, sizeof expected, "  0x%llx of 64 bytes, made by cuMemAlloc_v2, thread 1, clock %llu", p, clock);
    assert_leak_line(1, expected);
    assert_leak_line(2, "leak: 5 event handle(s)");
    for (int i = 0; i < 3; i++) {
        snprintf(expected, sizeof expected, "  %p, made by cuEventCreate, thread 1, clock %llu", (void *)events[i], clock);
        assert_leak_line(3 + (size_t)i, expected);
    }
    assert_leak_line(6, "  and 2 more");
    assert_leak_line(7, NULL);
    for (int i = 0; i < MANY; i++) assert_ok(cuEventDestroy(events[i]));
    assert_ok(cuMemFree(p));
    assert_leak_line(0, NULL);
}

/* One fault, one finding: what follows from it is not another. */
static void a_block_is_accused_once_of_the_order_of_its_uses(void **state)
{
    (void)state;
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr p;
    assert_ok(sim_hold(b));
    assert_ok(cuMemAllocAsync(&p, 4096, a));
    assert_ok(sim_launch_touch(b, p, 4096));
    assert_ok(sim_launch_touch(b, p, 4096));
    assert_ok(cuMemFreeAsync(p, a));
    assert_ok(cuStreamSynchronize(a));
    assert_ok(sim_release(b));
    assert_ok(cuStreamSynchronize(b));
    assert_int_equal(sim_findings("unordered-use"), 1);
    assert_int_equal(sim_violations(), 1);
}

static void take_a_while(void *flag)
{
    usleep(20000);
    *(int *)flag = 1;
}

static void work_of_a_destroyed_stream_is_waited_for(void **state)
{
    (void)state;
    CUstream s = new_stream();
    int done = 0;
    assert_ok(cuLaunchHostFunc(s, take_a_while, &done));
    assert_ok(cuStreamDestroy(s));
    assert_ok(cuCtxSynchronize());
    assert_int_equal(done, 1);
}

int main(int argc, char **argv)
{
    if (argc == 2) return run(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_finding_tells_both_histories_and_who_is_there_now),
        cmocka_unit_test(what_is_not_ordered_tells_of_both),
        cmocka_unit_test(a_double_free_tells_who_freed_it_first),
        cmocka_unit_test(notices_are_printed_when_asked_for),
        cmocka_unit_test(what_is_left_at_exit_is_listed_by_kind),
        on_device(findings_are_counted_by_code),
        on_device(a_second_allocation_at_the_address_may_be_freed),
        on_device(freed_memory_is_poisoned_unless_told_not_to),
        on_device(memory_that_a_stream_reuses_is_poisoned_too),
        on_device(a_release_that_has_not_run_poisons_nothing),
        on_device(a_call_with_a_registered_lock_is_a_misuse),
        on_device(leaks_are_what_the_program_made),
        on_device(leaks_name_the_oldest_few_of_each_kind),
        on_device(a_block_is_accused_once_of_the_order_of_its_uses),
        on_device(work_of_a_destroyed_stream_is_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
