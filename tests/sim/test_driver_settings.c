/* What the environment sets. The driver reads it when it is loaded, so each case is a process of its own: this program,
 * started again with the settings and the name of a question, whose answer is its exit status. */
#include "driver_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- questions --------------------------------------------------------------------------------------------------- */

static int init_code(void)
{
    return (int)cuInit(0);
}

static int device_count(void)
{
    int n = 99;
    return cuInit(0) || cuDeviceGetCount(&n) ? 98 : n;
}

static int megabytes(void)
{
    size_t bytes = 0;
    return cuInit(0) || cuDeviceTotalMem(&bytes, 0) ? 98 : (int)(bytes >> 20);
}

static int knows_context_events(void)
{
    void *p = NULL;
    CUdriverProcAddressQueryResult status;
    int version = 0;
    if (cuDriverGetVersion(&version) || version != 12040) return 98;
    return cuGetProcAddress("cuCtxRecordEvent", &p, 13000, 0, &status) == CUDA_SUCCESS && p;
}

static int allocates_and_frees(void)
{
    CUcontext c;
    CUdeviceptr p;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&c, 0) || cuCtxSetCurrent(c)) return 98;
    return cuMemAlloc(&p, 4096) || cuMemFree(p);
}

static const struct { const char *name; int (*answer)(void); } questions[] = {
    { "init_code", init_code },
    { "device_count", device_count },
    { "megabytes", megabytes },
    { "knows_context_events", knows_context_events },
    { "allocates_and_frees", allocates_and_frees },
};

static int answer(const char *name)
{
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++)
        if (strcmp(questions[i].name, name) == 0) return questions[i].answer();
    return 97;
}

static int ask(const char *question, const char *variable, const char *value)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        setenv(variable, value, 1);
        execl("/proc/self/exe", "test_driver_settings", question, (char *)NULL);
        _exit(96);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* --- tests --------------------------------------------------------------------------------------------------------- */

static void devices_are_as_many_as_asked_for(void **state)
{
    (void)state;
    assert_int_equal(ask("device_count", "SIMCUDA_DEVICES", "3"), 3);
    assert_int_equal(ask("device_count", "SIMCUDA_DEVICES", "99"), 16);
    assert_int_equal(ask("init_code", "SIMCUDA_DEVICES", "0"), CUDA_ERROR_NO_DEVICE);
}

static void memory_is_as_large_as_asked_for(void **state)
{
    (void)state;
    assert_int_equal(ask("megabytes", "SIMCUDA_MEMORY", "64M"), 64);
    assert_int_equal(ask("megabytes", "SIMCUDA_MEMORY", "1048576"), 1);
}

static void a_profile_hides_what_is_newer_from_the_resolver(void **state)
{
    (void)state;
    assert_int_equal(ask("knows_context_events", "SIMCUDA_PROFILE", "12.4"), 0);
}

static void the_log_file_has_a_line_for_each_call(void **state)
{
    (void)state;
    char path[] = "/tmp/simcuda-log-XXXXXX", first[256] = "", second[256] = "", third[256] = "";
    unsigned long long address = 0;
    int size = 0;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(ask("allocates_and_frees", "SIMCUDA_LOG", path), 0);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_non_null(fgets(first, sizeof first, f));
    assert_non_null(fgets(second, sizeof second, f));
    assert_null(fgets(third, sizeof third, f));
    fclose(f);
    unlink(path);
    assert_int_equal(sscanf(first, "cuMemAlloc_v2 result=0 address=%llx size=%d\n", &address, &size), 2);
    assert_int_equal(size, 4096);
    snprintf(third, sizeof third, "cuMemFree_v2 result=0 address=0x%llx\n", address);
    assert_string_equal(second, third);
}

int main(int argc, char **argv)
{
    if (argc == 2) return answer(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_are_as_many_as_asked_for),
        cmocka_unit_test(memory_is_as_large_as_asked_for),
        cmocka_unit_test(a_profile_hides_what_is_newer_from_the_resolver),
        cmocka_unit_test(the_log_file_has_a_line_for_each_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
