/* The end of a process: what the runtime answers once it has ended, and whether it gave its contexts back. The subject is
 * this program run again, with a handler that runs after every finaliser. */
#include "runtime_fixture.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern int __cxa_atexit(void (*)(void *), void *, void *);

static uint64_t (*calls)(const char *symbol);
static uint64_t releases;

static void when_all_has_ended(void *unused)
{
    void *p = marker();
    uint64_t initialisations;
    cudaError_t error;

    (void)unused;
    if (!calls)
        return;
    initialisations = calls("cuInit"); /* every call begins with one */
    error = cudaMalloc(&p, 1);
    printf("%d %d %d %llu %llu\n", (int)error, (int)cudaGetLastError(), p == marker(),
           (unsigned long long)(calls("cuInit") - initialisations),
           (unsigned long long)(calls("cuDevicePrimaryCtxRelease") - releases));
    fflush(stdout);
}

/* Before any library is initialised, and with no library to its name: it runs when all of them have been finalised. */
static void come_last(void)
{
    __cxa_atexit(when_all_has_ended, NULL, NULL);
}
__attribute__((section(".preinit_array"), used)) static void (*const first)(void) = come_last;

static int subject(void)
{
    void *libcuda = dlopen("libcuda.so.1", RTLD_NOW);
    void *p;

    if (!libcuda || cudaMalloc(&p, 100) || cudaFree(p))
        return 1;
    calls = (uint64_t(*)(const char *))dlsym(libcuda, "sim_calls");
    releases = calls("cuDevicePrimaryCtxRelease");
    return 0;
}

static const char *program;

static void what_the_subject_says(const char *setting, char *ret_line, size_t room)
{
    char command[512];
    FILE *out;

    snprintf(command, sizeof command, "%s '%s' subject", setting, program);
    out = popen(command, "r");
    assert_non_null(out);
    assert_non_null(fgets(ret_line, (int)room, out));
    assert_int_equal(pclose(out), 0);
}

static void calls_after_the_end_are_told_so_and_reach_no_driver(void **state)
{
    char line[64];

    (void)state;
    what_the_subject_says("SIMCUDA_RUNTIME_RELEASES=0", line, sizeof line);
    assert_string_equal(line, "4 4 1 0 0\n"); /* cudaErrorCudartUnloading, and the pointer is left alone */
}

static void the_primary_context_is_released_at_the_end_where_the_setting_says_so(void **state)
{
    char line[64];

    (void)state;
    what_the_subject_says("SIMCUDA_RUNTIME_RELEASES=1", line, sizeof line);
    assert_string_equal(line, "4 4 1 0 1\n");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_after_the_end_are_told_so_and_reach_no_driver),
        cmocka_unit_test(the_primary_context_is_released_at_the_end_where_the_setting_says_so),
    };

    if (argc > 1)
        return subject();
    program = argv[0];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
