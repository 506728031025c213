/* NVIDIA's own runtimes, shared and static, and cuBLAS, which carries one: of all the names that they ask for, every
 * function that we stand in front of is ours, every other is the driver's own. */
#include "inside.h"

#include <fcntl.h>

struct want { /* the symbol that a request means, for the functions that are hooked */
    const char *name;
    int since, until, form;
    const char *symbol;
};
enum { PLAIN = 1, LEGACY, THREAD };
static const struct want wants[] = {
#define PROC(symbol, name, since, until, form) {#name, since, until, form, #symbol},
#include "interpose/proc_address.def"
};

struct answer {
    char name[64], library[64], symbol[64], address[32];
    int version, flags, result;
};
static struct answer answers[1024];
static size_t count;

static const char *wanted(const struct answer *answer)
{
    for (size_t i = 0; i < sizeof wants / sizeof wants[0]; ++i)
        if (!strcmp(wants[i].name, answer->name) && answer->version >= wants[i].since &&
            (!wants[i].until || answer->version < wants[i].until) &&
            wants[i].form != (answer->flags == 2 ? LEGACY : THREAD))
            return wants[i].symbol;
    return NULL;
}

/* The routes alone, and the whole shim. */
static const char *shim;

static const char *shim_name(void)
{
    return strrchr(shim, '/') + 1;
}

/* Runs the program with the recorder before the shim and reads what it wrote. */
static void record(const char *program, const char *argument)
{
    char path[] = "/tmp/nxmem-conformance-XXXXXX", preload[3 * PATH_MAX];
    int file = mkstemp(path);
    assert_true(file >= 0);
    snprintf(preload, sizeof preload, "%s:%s", beside("librecorder.so"), shim);
    pid_t child = fork();
    if (child == 0) {
        setenv("LD_PRELOAD", preload, 1);
        setenv("LD_LIBRARY_PATH", DRIVER_FOLDER, 1);
        setenv("NXM_TEST_RECORD", path, 1);
        execl(program, program, argument, (char *)NULL);
        _exit(127);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    FILE *stream = fdopen(file, "r");
    assert_non_null(stream);
    count = 0;
    for (struct answer *a = answers;
         count < 1024 && fscanf(stream, "%63s %d %d %d %63s %63s %31s", a->name, &a->version, &a->flags, &a->result,
                                a->library, a->symbol, a->address) == 7;
         ++a)
        ++count;
    fclose(stream);
    unlink(path);
}

static void all_is_answered_by_whom_it_should_be(void)
{
    unsigned ours = 0;
    for (size_t i = 0; i < count; ++i) {
        const struct answer *a = &answers[i];
        const char *symbol = wanted(a);
        if (!strcmp(a->name, "-")) {
            assert_string_equal(a->address, "(nil)"); /* the question that must find nothing */
            continue;
        }
        if (a->result) fail_msg("%s %d %d: not answered (%d)", a->name, a->version, a->flags, a->result);
        const char *library = symbol ? shim_name() : "libcuda.so.1";
        if (strcmp(a->library, library) || (symbol && strcmp(a->symbol, symbol)))
            fail_msg("%s %d %d: %s of %s", a->name, a->version, a->flags, a->symbol, a->library);
        ours += symbol != NULL;
    }
    assert_true(ours >= 39); /* the rows may grow */
}

static void a_per_thread_form_is_never_its_twin(void)
{
    for (size_t i = 0; i < count; ++i)
        for (size_t k = 0; answers[i].flags == 2 && k < count; ++k)
            if (answers[k].flags == 0 && !strcmp(answers[k].name, answers[i].name))
                assert_string_not_equal(answers[k].address, answers[i].address);
}

/* The names are those that were measured; a runtime that asks for others is news. */
static void the_questions_are_the_known_ones(void)
{
    FILE *list = fopen(LOOKUPS, "r");
    char line[128];
    size_t index = 0;
    assert_non_null(list);
    for (; fgets(line, sizeof line, list); ++index) {
        char name[64] = "-";
        int version, flags;
        if (line[0] == ' ') assert_int_equal(sscanf(line, "%d %d", &version, &flags), 2);
        else assert_int_equal(sscanf(line, "%63s %d %d", name, &version, &flags), 3);
        assert_true(index < count);
        assert_string_equal(answers[index].name, name);
        assert_int_equal(answers[index].version, version);
        assert_int_equal(answers[index].flags, flags);
    }
    fclose(list);
    assert_int_equal(index, 440);
    assert_int_equal(count, 440);
}

static void the_shared_runtime_gets_our_functions_and_the_drivers_own(void **state)
{
    (void)state;
    record(beside("conformance_shared"), NULL);
    the_questions_are_the_known_ones();
    all_is_answered_by_whom_it_should_be();
    a_per_thread_form_is_never_its_twin();
}

static void the_static_runtime_gets_the_same(void **state)
{
    (void)state;
    record(beside("conformance_static"), NULL);
    the_questions_are_the_known_ones();
    all_is_answered_by_whom_it_should_be();
    a_per_thread_form_is_never_its_twin();
}

static void cublas_gets_the_same_through_the_runtime_inside_it(void **state)
{
    (void)state;
    record(beside("conformance_cublas"), CUBLAS);
    assert_true(count >= 440);
    all_is_answered_by_whom_it_should_be();
    a_per_thread_form_is_never_its_twin();
}

static int with_the_routes(void **state)
{
    static char path[PATH_MAX];
    (void)state;
    snprintf(path, sizeof path, "%s", beside("libroutes.so"));
    shim = path;
    return 0;
}

static int with_the_shim(void **state)
{
    (void)state;
    shim = SHIM;
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_shared_runtime_gets_our_functions_and_the_drivers_own),
        cmocka_unit_test(the_static_runtime_gets_the_same),
        cmocka_unit_test(cublas_gets_the_same_through_the_runtime_inside_it),
    };
    int failed = cmocka_run_group_tests_name("the routes", tests, with_the_routes, NULL);
    return failed + cmocka_run_group_tests_name("the whole shim", tests, with_the_shim, NULL);
}
