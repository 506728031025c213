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

/* A write of a value in a capturing stream; the code of that, or of ending the capture. */
static int captures_a_write(void)
{
    CUcontext c;
    CUdeviceptr p;
    CUstream s;
    CUgraph g;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&c, 0) || cuCtxSetCurrent(c) || cuMemAlloc(&p, 4096)) return 98;
    if (cuStreamCreate(&s, 0) || cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL)) return 98;
    int code = (int)cuStreamWriteValue32(s, p, 1, 0), ended = (int)cuStreamEndCapture(s, &g);
    return code ? code - CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED + 10 : ended ? 97 : 0;
}

static int allocates_and_frees(void)
{
    CUcontext c;
    CUdeviceptr p;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&c, 0) || cuCtxSetCurrent(c)) return 98;
    return cuMemAlloc(&p, 4096) || cuMemFree(p);
}

/* Which device of the machine is seen as `ordinal`: the name of the bus says it. */
static int physical(int ordinal)
{
    char id[32];
    unsigned domain, bus, slot;
    if (cuDeviceGetPCIBusId(id, sizeof id, ordinal) || sscanf(id, "%x:%x:%x", &domain, &bus, &slot) != 3) return 9;
    return (int)bus - 1;
}

/* Every visible device, a digit each, the first one highest. */
static int visible_devices(void)
{
    int n = 0, digits = 0;
    int result = (int)cuInit(0);
    if (result) return result;
    if (cuDeviceGetCount(&n)) return 98;
    for (int i = 0; i < n; i++) digits = digits * 5 + physical(i);
    return digits;
}

static int identities_differ(void)
{
    CUuuid a, b;
    CUdevice found;
    char id[32];
    if (cuInit(0) || cuDeviceGetUuid_v2(&a, 0) || cuDeviceGetUuid_v2(&b, 1)) return 98;
    if (cuDeviceGetPCIBusId(id, sizeof id, 1) || cuDeviceGetByPCIBusId(&found, id) || found != 1) return 97;
    return memcmp(&a, &b, sizeof a) != 0;
}

static int megabytes_by_64(void)
{
    size_t bytes = 0;
    return cuInit(0) || cuDeviceTotalMem(&bytes, 0) ? 98 : (int)(bytes >> 26);
}

/* In sixteenths of a megabyte of the second device and of the first. */
static int two_sizes(void)
{
    size_t a = 0, b = 0;
    if (cuInit(0) || cuDeviceTotalMem(&a, 0) || cuDeviceTotalMem(&b, 1)) return 98;
    return (int)(b >> 20) * 16 + (int)(a >> 20);
}

static int profile(void)
{
    int version = 0;
    return cuDriverGetVersion(&version) ? 98 : version / 1000;
}

static int starts(void)
{
    return cuInit(0) ? 98 : 0;
}

static int fact_of_free(void)
{
    return sim_fact_get("free_waits");
}

/* Which of three allocations fails, and with what. */
static int which_fails(void)
{
    CUcontext c;
    CUdeviceptr p;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&c, 0) || cuCtxSetCurrent(c)) return 98;
    for (int i = 1; i <= 3; i++) {
        int code = (int)cuMemAlloc(&p, 4096);
        if (code) return i * 10 + code;
    }
    return 0;
}

static const struct { const char *name; int (*answer)(void); } questions[] = {
    { "which_fails", which_fails },
    { "visible_devices", visible_devices },
    { "identities_differ", identities_differ },
    { "two_sizes", two_sizes },
    { "init_code", init_code },
    { "device_count", device_count },
    { "megabytes", megabytes },
    { "knows_context_events", knows_context_events },
    { "megabytes_by_64", megabytes_by_64 },
    { "profile", profile },
    { "starts", starts },
    { "fact_of_free", fact_of_free },
    { "allocates_and_frees", allocates_and_frees },
    { "captures_a_write", captures_a_write },
};

static int answer(const char *name)
{
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++)
        if (strcmp(questions[i].name, name) == 0) return questions[i].answer();
    return 97;
}

static char said[4096]; /* on standard error, by the latest who was asked */

static int ask_with(const char *question, const char *variable, const char *value, const char *variable2,
                    const char *value2)
{
    int status = 0, ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        setenv(variable, value, 1);
        if (variable2) setenv(variable2, value2, 1);
        execl("/proc/self/exe", "test_driver_settings", question, (char *)NULL);
        _exit(96);
    }
    size_t length = 0;
    close(ends[1]);
    for (ssize_t n; length + 1 < sizeof said && (n = read(ends[0], said + length, sizeof said - 1 - length)) > 0;) length += (size_t)n;
    said[length] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int ask(const char *question, const char *variable, const char *value)
{
    return ask_with(question, variable, value, NULL, NULL);
}

/* --- tests --------------------------------------------------------------------------------------------------------- */

static void devices_are_as_many_as_asked_for(void **state)
{
    (void)state;
    assert_int_equal(ask("device_count", "SIMCUDA_DEVICES", "3"), 3);
    assert_int_equal(ask("device_count", "SIMCUDA_DEVICES", "16"), 16);
    assert_int_equal(ask("init_code", "SIMCUDA_DEVICES", "0"), CUDA_ERROR_NO_DEVICE);
}

static void memory_is_as_large_as_asked_for(void **state)
{
    (void)state;
    assert_int_equal(ask("megabytes", "SIMCUDA_MEMORY", "64M"), 64);
    assert_int_equal(ask("megabytes", "SIMCUDA_MEMORY", "1048576"), 1);
}

static int see(const char *list)
{
    return ask_with("visible_devices", "SIMCUDA_DEVICES", "4", "CUDA_VISIBLE_DEVICES", list);
}

static void the_program_sees_the_devices_that_it_is_given_in_their_order(void **state)
{
    (void)state;
    assert_int_equal(ask("visible_devices", "SIMCUDA_DEVICES", "4"), 1 * 25 + 2 * 5 + 3); /* 0 1 2 3 */
    assert_int_equal(see("3,1"), 3 * 5 + 1);
    assert_int_equal(see(" 2 , 3 "), 2 * 5 + 3);
    assert_int_equal(see("2,9,1"), 2); /* the list ends at what is no device */
    assert_int_equal(see("1,1,2"), 1);
    assert_int_equal(see(""), CUDA_ERROR_NO_DEVICE);
    assert_int_equal(see("-1"), CUDA_ERROR_NO_DEVICE);
    assert_int_equal(see("GPU-a3,GPU-a1696d75"), 3 * 5 + 1);
    assert_int_equal(see("GPU-a"), CUDA_ERROR_NO_DEVICE); /* more than one begins like this */
}

static void devices_have_identities_of_their_own(void **state)
{
    (void)state;
    assert_int_equal(ask("identities_differ", "SIMCUDA_DEVICES", "2"), 1);
    assert_int_equal(ask_with("identities_differ", "SIMCUDA_DEVICES", "3", "CUDA_VISIBLE_DEVICES", "2,0"), 1);
}

static void each_device_may_have_a_size_of_its_own(void **state)
{
    (void)state;
    assert_int_equal(ask_with("two_sizes", "SIMCUDA_DEVICES", "2", "SIMCUDA_MEMORY", "4M,7M"), 7 * 16 + 4);
    assert_int_equal(ask_with("two_sizes", "SIMCUDA_DEVICES", "2", "SIMCUDA_MEMORY", "5M"), 5 * 16 + 5);
}

static void a_profile_hides_what_is_newer_from_the_resolver(void **state)
{
    (void)state;
    assert_int_equal(ask("knows_context_events", "SIMCUDA_PROFILE", "12.4"), 0);
}

static void a_call_fails_as_it_was_told_to(void **state)
{
    (void)state;
    assert_int_equal(ask("which_fails", "SIMCUDA_FAIL", ""), 0);
    assert_int_equal(ask("which_fails", "SIMCUDA_FAIL", "cuMemAlloc_v2:2:2"), 22);
    assert_int_equal(ask("which_fails", "SIMCUDA_FAIL", "cuMemAlloc_v2:3:1"), 31);
}

static int lines_said(void)
{
    int n = 0;
    for (const char *p = said; (p = strchr(p, '\n')); p++) n++;
    return n;
}

static void a_value_that_cannot_be_is_told_in_a_line_and_not_used(void **state)
{
    (void)state;
    static const struct { const char *question, *variable, *value; int otherwise; } rows[] = {
        { "device_count", "SIMCUDA_DEVICES", "99", 1 },
        { "device_count", "SIMCUDA_DEVICES", "-1", 1 },
        { "device_count", "SIMCUDA_DEVICES", "two", 1 },
        { "megabytes_by_64", "SIMCUDA_MEMORY", "xyz", 128 },
        { "megabytes_by_64", "SIMCUDA_MEMORY", "64X", 128 },
        { "megabytes_by_64", "SIMCUDA_MEMORY", "64M,", 128 },
        { "megabytes_by_64", "SIMCUDA_MEMORY", "0", 128 },
        { "megabytes_by_64", "SIMCUDA_MEMORY", "99999999999G", 128 },
        { "profile", "SIMCUDA_PROFILE", "banana", 13 },
        { "profile", "SIMCUDA_PROFILE", "12", 13 },
        { "profile", "SIMCUDA_PROFILE", "12.4x", 13 },
        { "profile", "SIMCUDA_PROFILE", "9.0", 13 },
        { "starts", "SIMCUDA_SEED", "lucky", 0 },
        { "starts", "SIMCUDA_LEAKS", "yes", 0 },
        { "starts", "SIMCUDA_NOTICES", "2", 0 },
        { "starts", "SIMCUDA_QUIET", "please", 0 },
        { "starts", "SIMCUDA_POISON", "arsenic", 0 },
        { "starts", "SIMCUDA_LOOKS", "3", 0 },
        { "starts", "SIMCUDA_LOG", "/nonexistent/log", 0 },
        { "which_fails", "SIMCUDA_FAIL", "cuMemAlloc_v2", 0 },
        { "which_fails", "SIMCUDA_FAIL", "cuMemAlloc_v2:0:2", 0 },
        { "which_fails", "SIMCUDA_FAIL", "cuMemAlloc_v2:2:0", 0 },
        { "which_fails", "SIMCUDA_FAIL", "cuMemAlloc_v2:2:2x", 0 },
        { "which_fails", "SIMCUDA_FAIL", "cuMemAlloc_v9:2:2", 0 },
        { "starts", "SIMCUDA_HOST_MEMORY", "maybe", 0 },
        { "starts", "SIMCUDA_CONTEXT_OVERHEAD", "much", 0 },
        { "starts", "SIMCUDA_MODULE_MEMORY", "-5", 0 },
        { "starts", "SIMCUDA_LOCAL_MEMORY", "1T", 0 },
        { "starts", "SIMCUDA_RUNTIME_RELEASES", "maybe", 0 },
        { "fact_of_free", "SIMCUDA_FREE_WAITS", "no", 1 },
        { "fact_of_free", "SIMCUDA_FREE_WAIT", "0", 1 }, /* no such name */
        { "starts", "SIMCUDA_DEVICE", "2", 0 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(ask(rows[i].question, rows[i].variable, rows[i].value), rows[i].otherwise);
        assert_int_equal(lines_said(), 1);
        assert_non_null(strstr(said, rows[i].variable));
    }
}

static void values_that_can_be_are_told_nothing_about(void **state)
{
    (void)state;
    assert_int_equal(ask("device_count", "SIMCUDA_DEVICES", "2"), 2);
    assert_int_equal(lines_said(), 0);
    assert_int_equal(ask("megabytes", "SIMCUDA_MEMORY", "64m"), 64);
    assert_int_equal(lines_said(), 0);
    assert_int_equal(ask("fact_of_free", "SIMCUDA_FREE_WAITS", "0"), 0);
    assert_int_equal(lines_said(), 0);
    assert_int_equal(ask_with("starts", "SIMCUDA_SECOND_INSTANCE", "801", "SIMCUDA_LEAKS", "0"), 0);
    assert_int_equal(lines_said(), 0);
    assert_int_equal(ask_with("device_count", "SIMCUDA_PROFILE", "", "SIMCUDA_DEVICES", ""), 1);
    assert_int_equal(lines_said(), 0);
}

static void drivers_before_batch_nodes_do_not_capture_writes_of_values(void **state)
{
    (void)state;
    assert_int_equal(ask("captures_a_write", "SIMCUDA_PROFILE", "11.7"), 0);
    assert_int_equal(ask("captures_a_write", "SIMCUDA_PROFILE", "11.6"), 10);
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
        cmocka_unit_test(each_device_may_have_a_size_of_its_own),
        cmocka_unit_test(devices_have_identities_of_their_own),
        cmocka_unit_test(the_program_sees_the_devices_that_it_is_given_in_their_order),
        cmocka_unit_test(a_profile_hides_what_is_newer_from_the_resolver),
        cmocka_unit_test(a_call_fails_as_it_was_told_to),
        cmocka_unit_test(a_value_that_cannot_be_is_told_in_a_line_and_not_used),
        cmocka_unit_test(values_that_can_be_are_told_nothing_about),
        cmocka_unit_test(drivers_before_batch_nodes_do_not_capture_writes_of_values),
        cmocka_unit_test(the_log_file_has_a_line_for_each_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
