/* What every entry point does before anything else: it is counted, and it fails when a test says so. */
#include "driver_fixture.h"

#include <dlfcn.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { INJECTED = 777 };

typedef int any_call(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t,
                     uintptr_t, uintptr_t, uintptr_t);

struct progress {
    size_t index;
    char complaint[128];
};

static int call_with_nothing(const char *symbol)
{
    void *p = dlsym(RTLD_DEFAULT, symbol);
    any_call *call = (any_call *)p;
    return call ? call(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0) : -1;
}

/* In a process of its own: whoever looks at its arguments first dies of them. */
static void try_each(struct progress *at)
{
    const char *symbol;
    CUcontext c;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&c, 0) || cuCtxSetCurrent(c)) _exit(1);
    for (; (symbol = sim_symbol(at->index, NULL)); at->index++) {
        uint64_t before = sim_calls(symbol);
        if (sim_fail(symbol, 1, INJECTED)) _exit(1);
        int result = call_with_nothing(symbol);
        uint64_t after = sim_calls(symbol);
        if (result == INJECTED && after == before + 1) continue;
        snprintf(at->complaint, sizeof at->complaint, "answered %d, counted %d", result, (int)(after - before));
        _exit(1);
    }
    _exit(0);
}

static void every_entry_point_counts_and_fails_when_told(void **state)
{
    (void)state;
    int status = 0;
    struct progress *at = mmap(NULL, sizeof *at, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(at, MAP_FAILED);
    pid_t child = fork();
    if (child == 0) try_each(at);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        fail_msg("%s: %s", sim_symbol(at->index, NULL), at->complaint[0] ? at->complaint : "died");
    assert_true(at->index > 500);
    munmap(at, sizeof *at);
}

static void the_nth_call_fails_and_only_that_one(void **state)
{
    (void)state;
    CUdeviceptr p[4];
    assert_int_equal(sim_fail("cuMemAlloc_v2", 3, CUDA_ERROR_OUT_OF_MEMORY), 0);
    assert_ok(cuMemAlloc(&p[0], 64));
    assert_ok(cuMemAlloc(&p[1], 64));
    assert_cu(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&p[2], 64));
    assert_ok(cuMemAlloc(&p[3], 64));
    assert_int_equal(sim_calls("cuMemAlloc_v2"), 4);
    assert_ok(cuMemFree(p[0]));
    assert_ok(cuMemFree(p[1]));
    assert_ok(cuMemFree(p[3]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_entry_point_counts_and_fails_when_told), /* first: it forks */
        on_device(the_nth_call_fails_and_only_that_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
