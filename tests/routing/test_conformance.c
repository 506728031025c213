/* NVIDIA's own runtimes, shared and static, and its libraries, of which most carry one: of all the names that they ask for,
 * every function that we stand in front of is ours, every other is the driver's own. */
#include "inside.h"

#include <fcntl.h>
#include <stdbool.h>

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

static const char *const nothing[5];

struct answer {
    char name[64], library[64], symbol[64], address[32];
    int version, flags, result;
};
static struct answer answers[4096];
static size_t count;

static bool has_row(const char *symbol)
{
    for (size_t i = 0; i < sizeof wants / sizeof wants[0]; ++i)
        if (!strcmp(wants[i].symbol, symbol)) return true;
    return false;
}

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
static void record(const char *program, const char *const arguments[5])
{
    char path[] = "/tmp/nxmem-conformance-XXXXXX", preload[3 * PATH_MAX];
    int file = mkstemp(path);
    assert_true(file >= 0);
    snprintf(preload, sizeof preload, "%s:%s", beside("librecorder.so"), shim);
    pid_t child = fork();
    if (child == 0) {
        setenv("LD_PRELOAD", preload, 1);
        setenv("LD_LIBRARY_PATH", CUDA_LIB ":" OLDER_CUDA ":" DRIVER_FOLDER, 1); /* of the last only the driver */
        setenv("NXM_TEST_RECORD", path, 1);
        execl(program, program, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], (char *)NULL);
        _exit(127);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    FILE *stream = fdopen(file, "r");
    assert_non_null(stream);
    count = 0;
    for (struct answer *a = answers;
         count < 4096 && fscanf(stream, "%63s %d %d %d %63s %63s %31s", a->name, &a->version, &a->flags, &a->result,
                                a->library, a->symbol, a->address) == 7;
         ++a)
        ++count;
    fclose(stream);
    unlink(path);
}

/* Asked of dlsym by its own name. */
static bool is_answered_by_dlsym(const struct answer *a)
{
    if (a->result) return false; /* this driver has no such name */
    assert_string_equal(a->library, has_row(a->name) ? shim_name() : "libcuda.so.1");
    assert_string_equal(a->symbol, a->name);
    return has_row(a->name);
}

static unsigned all_is_answered_by_whom_it_should_be(void)
{
    unsigned ours = 0;
    for (size_t i = 0; i < count; ++i) {
        const struct answer *a = &answers[i];
        const char *symbol = wanted(a);
        if (a->version < 0) {
            ours += is_answered_by_dlsym(a);
            continue;
        }
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
    return ours;
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
    record(beside("conformance_shared"), nothing);
    the_questions_are_the_known_ones();
    assert_true(all_is_answered_by_whom_it_should_be() >= 39); /* the rows may grow */
    a_per_thread_form_is_never_its_twin();
}

static void the_static_runtime_gets_the_same(void **state)
{
    (void)state;
    record(beside("conformance_static"), nothing);
    the_questions_are_the_known_ones();
    assert_true(all_is_answered_by_whom_it_should_be() >= 39); /* the rows may grow */
    a_per_thread_form_is_never_its_twin();
}

/* The libraries that NVIDIA's toolkit has and those of older toolkits: where one lies, and what makes it ask. Each carries a runtime
 * of its own, or links the shared one. What is not installed is named in the output. */
struct library {
    const char *folder;
    const char *arguments[5]; /* library, function, what it takes */
    unsigned asked, ours;     /* at least */
};

static bool is_installed(const char *path)
{
    if (access(path, R_OK) == 0) return true;
    print_message("NOT INSTALLED: %s\n", path);
    return false;
}

static void a_library_gets_the_same_through_its_runtime(void **state)
{
    const struct library *library = *state;
    char path[PATH_MAX];
    const char *arguments[5];
    memcpy(arguments, library->arguments, sizeof arguments);
    snprintf(path, sizeof path, "%s/%s", library->folder, library->arguments[0]);
    arguments[0] = path;
    if (!is_installed(path)) return;
    record(beside("conformance_library"), arguments);
    assert_true(count >= library->asked);
    assert_true(all_is_answered_by_whom_it_should_be() >= library->ours);
    a_per_thread_form_is_never_its_twin();
}

/* cuFFT has no runtime: it asks dlsym for suffixed names. */
static void a_library_without_a_runtime_gets_the_same_by_dlsym(void **state)
{
    static const char *const plan[5] = {"libcufft.so", "cufftPlan1d", "100", "41", "1"};
    (void)state;
    if (!is_installed(CUDA_LIB "/libcufft.so")) return;
    record(beside("conformance_library"), plan);
    assert_true(count >= 40);
    unsigned ours = 0;
    for (size_t i = 0; i < count; ++i) {
        assert_true(answers[i].version < 0);
        ours += is_answered_by_dlsym(&answers[i]);
    }
    assert_true(ours >= 10);
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

#define TOOLKIT(library, function, a, b, c) {CUDA_LIB, {library, function, a, b, c}, 300, 39}
#define OLDER(library, function, a, asked, ours) {OLDER_CUDA, {library, function, a, "0", "0"}, asked, ours}
static const struct library libraries[] = {
    TOOLKIT("libcublas.so", "cublasCreate_v2", "0", "0", "0"),
    TOOLKIT("libcublasLt.so", "cublasLtCreate", "0", "0", "0"),
    TOOLKIT("libcudnn.so", "cudnnCreate", "0", "0", "0"),
    TOOLKIT("libcusparse.so", "cusparseCreate", "0", "0", "0"),
    TOOLKIT("libcusolver.so", "cusolverDnCreate", "0", "0", "0"),
    TOOLKIT("libcurand.so", "curandCreateGenerator", "100", "0", "0"),
    TOOLKIT("libnccl.so", "ncclCommInitAll", "1", "0", "0"),
    OLDER("libcudart.so.12", "cudaMalloc", "64", 400, 39),
    OLDER("libcurand.so.10", "curandCreateGenerator", "100", 400, 39), /* the static runtime of CUDA 12 is inside */
    OLDER("libcudart.so.11.0", "cudaMalloc", "64", 300, 39),
};
enum { OTHERS = 3, LIBRARIES = sizeof libraries / sizeof libraries[0] };

int main(void)
{
    struct CMUnitTest tests[OTHERS + LIBRARIES] = {
        cmocka_unit_test(the_shared_runtime_gets_our_functions_and_the_drivers_own),
        cmocka_unit_test(the_static_runtime_gets_the_same),
        cmocka_unit_test(a_library_without_a_runtime_gets_the_same_by_dlsym),
    };
    char names[LIBRARIES][64];
    for (size_t i = 0; i < LIBRARIES; ++i) {
        snprintf(names[i], sizeof names[i], "%s_gets_the_same_through_its_runtime", libraries[i].arguments[0]);
        tests[OTHERS + i] = (struct CMUnitTest){names[i], a_library_gets_the_same_through_its_runtime, NULL, NULL, (void *)&libraries[i]};
    }
    int failed = cmocka_run_group_tests_name("the routes", tests, with_the_routes, NULL);
    return failed + cmocka_run_group_tests_name("the whole shim", tests, with_the_shim, NULL);
}
