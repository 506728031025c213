/* cuGetProcAddress of drivers of three ages, in both arities, and the runtime's doors to it. */
#include "inside.h"

typedef int old_proc(const char *name, void **function, int version, uint64_t flags);
typedef int new_proc(const char *name, void **function, int version, uint64_t flags, int *status);
typedef int allocate(unsigned long long *pointer, size_t size);
typedef const char *text(void);

static void *driver;
static const char *profile;

static int is(const char *name) { return strcmp(profile, name) == 0; }

/* "renamed": a driver that nobody named libcuda is taken for one once it answers to a driver's name */
static int modern(void) { return is("13.0") || is("renamed"); }
static const char *library(void) { return is("renamed") ? "libdriver.so" : "libcuda.so.1"; }

static int open_driver(void **state)
{
    (void)state;
    const char *file = "cuda/libcuda.so.1";
    if (is("renamed")) file = "other/libdriver.so";
    if (is("11.4")) file = "cuda114/libcuda.so.1";
    if (is("450")) file = "cuda450/libcuda.so.1";
    driver = open_beside(file, RTLD_NOW);
    return 0;
}

static void odd(int how)
{
    void (*set)(int) = (void (*)(int))dlsym(driver, "fake_cuda_odd");
    set(how);
}

/* What the program's resolver answers: the newest arity that the driver has. */
static void *resolve(const char *name, int version, uint64_t flags)
{
    void *found = NULL;
    new_proc *newer = SYMBOL(new_proc, driver, "cuGetProcAddress_v2");
    if (newer) return newer(name, &found, version, flags, NULL) ? NULL : found;
    old_proc *older = SYMBOL(old_proc, driver, "cuGetProcAddress");
    assert_non_null(older);
    return older(name, &found, version, flags) ? NULL : found;
}

static void a_resolver_that_the_driver_lacks_is_never_invented(void **state)
{
    (void)state;
    assert_int_equal(dlsym(driver, "cuGetProcAddress") != NULL, !is("450"));
    assert_int_equal(dlsym(driver, "cuGetProcAddress_v2") != NULL, modern());
    if (!is("450")) {
        void *self = resolve("cuGetProcAddress", 12000, 0);
        assert_ptr_equal(self, hook(modern() ? "cuGetProcAddress_v2" : "cuGetProcAddress"));
    }
    /* the exports exist whatever the driver: they answer not-found and touch nothing */
    void *untouched = &untouched, *before = untouched;
    int status = 77;
    if (!modern()) {
        assert_int_equal(((new_proc *)hook("cuGetProcAddress_v2"))("cuInit", &untouched, 12000, 0, &status), 500);
        assert_ptr_equal(untouched, before);
        assert_int_equal(status, 77);
    }
}

static void a_resolver_asked_for_itself_gives_the_form_of_matching_arity(void **state)
{
    (void)state;
    if (is("450")) return; /* it has none: the test above */
    assert_ptr_equal(resolve("cuGetProcAddress", 11030, 0), hook("cuGetProcAddress"));
    void *through = NULL;
    old_proc *older = (old_proc *)resolve("cuGetProcAddress", 11030, 0);
    assert_int_equal(older("cuMemFree", &through, 3020, 0), 0);
    assert_ptr_equal(through, hook("cuMemFree_v2"));
    if (!modern()) return;
    new_proc *newer = (new_proc *)resolve("cuGetProcAddress", 12000, 0);
    assert_ptr_equal(newer, hook("cuGetProcAddress_v2"));
    assert_int_equal(newer("cuMemAlloc", &through, 3020, 0, NULL), 0);
    assert_ptr_equal(through, hook("cuMemAlloc_v2"));
}

static void the_version_selects_the_abi_and_the_old_one_is_not_ours(void **state)
{
    (void)state;
    if (is("450")) return;
    text *hit = SYMBOL(text, driver, "fake_cuda_hit");
    unsigned long long pointer = 0;
    for (int version = 2000; version <= 12000; version += version == 2000 ? 1020 : 8980) {
        allocate *alloc = (allocate *)resolve("cuMemAlloc", version, 0);
        assert_non_null(alloc);
        unsigned before = hooked("cuMemAlloc_v2");
        assert_int_equal(alloc(&pointer, 4), 0);
        assert_string_equal(hit(), version < 3020 ? "cuMemAlloc" : "cuMemAlloc_v2");
        assert_int_equal(hooked("cuMemAlloc_v2"), before + (version >= 3020));
    }
    assert_ptr_equal(resolve("cuStreamBeginCapture", 10000, 0), hook("cuStreamBeginCapture"));
    assert_ptr_equal(resolve("cuStreamBeginCapture", 10010, 0), hook("cuStreamBeginCapture_v2"));
    assert_ptr_equal(resolve("cuStreamBeginCapture", 10010, 2), hook("cuStreamBeginCapture_v2_ptsz"));
    assert_ptr_equal(resolve("cuCtxDestroy", 2000, 0), hook("cuCtxDestroy"));
    assert_ptr_equal(resolve("cuCtxDestroy", 4000, 0), hook("cuCtxDestroy_v2"));
}

static void flags_select_the_stream_form(void **state)
{
    (void)state;
    if (is("450")) return;
    assert_ptr_equal(resolve("cuMemAllocAsync", 11020, 0), hook("cuMemAllocAsync"));
    assert_ptr_equal(resolve("cuMemAllocAsync", 11020, 1), hook("cuMemAllocAsync"));
    assert_ptr_equal(resolve("cuMemAllocAsync", 11020, 2), hook("cuMemAllocAsync_ptsz"));
    assert_ptr_not_equal(hook("cuMemAllocAsync"), hook("cuMemAllocAsync_ptsz"));
    assert_ptr_equal(resolve("cuMemAlloc", 3020, 2), hook("cuMemAlloc_v2"));
}

static void what_is_not_found_or_not_ours_stays_the_drivers_answer(void **state)
{
    (void)state;
    if (is("450")) return;
    assert_true(lies_in(resolve("cuInit", 2000, 0), library()));
    assert_true(lies_in(resolve("cuCtxGetCurrent", 4000, 0), library()));
    assert_null(resolve("cuMemAllocAsync", 11010, 0));
    assert_null(resolve("cuNoSuchThing", 99000, 0));
    assert_null(resolve("", 0, 0));
    if (!modern()) return;
    new_proc *newer = SYMBOL(new_proc, driver, "cuGetProcAddress_v2");
    void *found = NULL;
    int status = 77;
    assert_int_equal(newer("cuNoSuchThing", &found, 13000, 0, &status), 500);
    assert_null(found);
    assert_int_equal(status, 1);
    assert_int_equal(newer("cuMemAlloc", &found, 3020, 0, &status), 0);
    assert_int_equal(status, 0);
    assert_int_equal(newer("cuMemAlloc", NULL, 3020, 0, &status), 1);
    assert_int_equal(newer(NULL, &found, 3020, 0, &status), 1);
}

static void an_address_without_a_symbol_is_known_by_what_was_asked(void **state)
{
    (void)state;
    if (is("450")) return;
    odd(1);
    assert_ptr_equal(resolve("cuMemAlloc", 3020, 0), hook("cuMemAlloc_v2"));
    assert_true(lies_in(resolve("cuMemAlloc", 2000, 0), library()));
    assert_true(lies_in(resolve("cuMemAlloc", 99000, 0), library())); /* newer than what we know: in doubt, theirs */
    assert_ptr_equal(resolve("cuMemAllocAsync", 11020, 2), hook("cuMemAllocAsync_ptsz"));
    odd(0);
}

static void a_newer_form_with_a_name_of_its_own_passes_untouched(void **state)
{
    (void)state;
    if (is("450")) return;
    odd(2);
    void *found = resolve("cuMemAlloc", 12000, 0);
    assert_ptr_equal(found, dlsym(driver, "cuMemAlloc_v9"));
    odd(0);
}

static void names_that_an_old_driver_lacks_are_not_found(void **state)
{
    (void)state;
    if (!is("450")) return;
    assert_null(dlsym(driver, "cuMemAllocAsync"));
    assert_null(dlsym(driver, "cuMemCreate"));
    allocate *alloc = SYMBOL(allocate, driver, "cuMemAlloc_v2");
    unsigned long long pointer = 0;
    assert_int_equal(alloc(&pointer, 4), 0);
    assert_int_equal(hooked("cuMemAlloc_v2"), 1);
    assert_int_equal(((allocate *)hook("cuMemCreate"))(&pointer, 4), 500);
}

static void the_runtimes_door_to_the_driver_gives_hooks(void **state)
{
    (void)state;
    if (!is("13.0")) return; /* fake_cudart asks for the newer resolver */
    void *runtime = open_beside("libcudart.so.13", RTLD_NOW);
    int (*entry)(const char *, void **, unsigned long long, int *) =
        (int (*)(const char *, void **, unsigned long long, int *))dlsym(runtime, "cudaGetDriverEntryPoint");
    assert_false(lies_in((void *)entry, "libcudart"));
    void *found = NULL;
    int status = 77;
    assert_int_equal(entry("cuMemAlloc", &found, 0, &status), 0);
    assert_ptr_equal(found, hook("cuMemAlloc_v2"));
    assert_int_equal(status, 0);
    assert_int_equal(entry("cuMemAllocAsync", &found, 2, NULL), 0);
    assert_ptr_equal(found, hook("cuMemAllocAsync_ptsz"));
}

int main(int argc, char **argv)
{
    static const char *const profiles[] = {"13.0", "11.4", "450", "renamed"};
    (void)argc;
    if (!getenv("NXM_TEST_CASE")) return run_each(argv, profiles, 4);
    profile = getenv("NXM_TEST_CASE");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_resolver_that_the_driver_lacks_is_never_invented),
        cmocka_unit_test(a_resolver_asked_for_itself_gives_the_form_of_matching_arity),
        cmocka_unit_test(the_version_selects_the_abi_and_the_old_one_is_not_ours),
        cmocka_unit_test(flags_select_the_stream_form),
        cmocka_unit_test(what_is_not_found_or_not_ours_stays_the_drivers_answer),
        cmocka_unit_test(an_address_without_a_symbol_is_known_by_what_was_asked),
        cmocka_unit_test(a_newer_form_with_a_name_of_its_own_passes_untouched),
        cmocka_unit_test(names_that_an_old_driver_lacks_are_not_found),
        cmocka_unit_test(the_runtimes_door_to_the_driver_gives_hooks),
    };
    return cmocka_run_group_tests_name(profile, tests, open_driver, NULL);
}
