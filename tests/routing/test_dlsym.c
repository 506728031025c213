/* dlsym, dlvsym and dlopen as a program and its libraries call them. */
#include "inside.h"

typedef void *lookup(void *handle, const char *name);
typedef void *versioned_lookup(void *handle, const char *name, const char *version);
typedef int allocate(unsigned long long *pointer, size_t size);

static void *driver, *user, *user_a; /* opened RTLD_LOCAL */

static int open_all(void **state)
{
    (void)state;
    driver = open_beside("cuda/libcuda.so.1", RTLD_NOW);
    user = open_beside("libuser.so", RTLD_NOW);
    user_a = open_beside("libuser_a.so", RTLD_NOW);
    return 0;
}

static void an_ordinary_handle_gives_the_hook_of_every_row_that_the_driver_has(void **state)
{
    (void)state;
    unsigned hooks = 0;
    const char *(*row)(unsigned) = (const char *(*)(unsigned))dlsym(RTLD_DEFAULT, "nxmem_test_row");
    void *(*natively)(const char *) = (void *(*)(const char *))dlsym(driver, "fake_cuda_looks_up");
    const char *name;
    for (unsigned api = 1; (name = row(api)); ++api) {
        if (strncmp(name, "cuda", 4) == 0) continue;
        (void)dlerror();
        void *found = dlsym(driver, name);
        const char *error = dlerror();
        assert_ptr_equal(found, natively(name) ? hook(name) : NULL);
        assert_int_equal(error != NULL, found == NULL);
        hooks += found != NULL;
    }
    assert_true(hooks >= 23); /* what fake_cuda.c defines of the rows, which may grow */
}

static void a_found_hook_reaches_the_driver_and_counts_once(void **state)
{
    (void)state;
    const char *(*hit)(void) = (const char *(*)(void))dlsym(driver, "fake_cuda_hit");
    unsigned (*calls)(void) = (unsigned (*)(void))dlsym(driver, "fake_cuda_calls");
    allocate *alloc = SYMBOL(allocate, driver, "cuMemAlloc_v2");
    unsigned before = hooked("cuMemAlloc_v2"), driver_before = calls();
    unsigned long long pointer = 0;
    assert_int_equal(alloc(&pointer, 100), 0);
    assert_true(pointer != 0);
    assert_string_equal(hit(), "cuMemAlloc_v2");
    assert_int_equal(hooked("cuMemAlloc_v2"), before + 1);
    assert_int_equal(calls(), driver_before + 1);
}

static void names_that_are_not_ours_are_the_drivers_own(void **state)
{
    (void)state;
    static const char *const others[] = {"cuInit", "cuMemAlloc", "cuMemAlloc_v9", "cuCtxGetCurrent", "fake_cuda_hit"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; ++i) {
        void *found = dlsym(driver, others[i]);
        assert_non_null(found);
        assert_true(lies_in(found, "libcuda.so.1"));
    }
    assert_ptr_equal(dlsym(RTLD_DEFAULT, "malloc"), (void *)malloc);
    assert_null(dlsym(driver, "cu"));
    assert_null(dlsym(driver, "cuMemAlloc_v2x"));
    assert_null(dlsym(driver, ""));
}

static void a_name_the_driver_lacks_fails_with_the_loaders_words(void **state)
{
    (void)state;
    (void)dlerror();
    assert_null(dlsym(driver, "cuMemAllocFromPoolAsync"));
    const char *error = dlerror();
    assert_non_null(error);
    assert_non_null(strstr(error, "libcuda.so.1"));
    assert_non_null(strstr(error, "cuMemAllocFromPoolAsync"));
    assert_null(dlerror());
}

static void a_substituted_answer_leaves_no_error_behind(void **state)
{
    (void)state;
    lookup *from_user = SYMBOL(lookup, user, "user_dlsym");
    (void)dlerror();
    assert_non_null(dlsym(driver, "cuMemFree_v2"));
    assert_null(dlerror());
    void *linked = open_beside("libuser_cuda.so", RTLD_NOW);
    lookup *next = SYMBOL(lookup, linked, "user_dlsym");
    assert_ptr_equal(next(RTLD_NEXT, "cuMemFree_v2"), hook("cuMemFree_v2"));
    assert_null(dlerror());
    assert_null(from_user(RTLD_NEXT, "cuMemFree_v2"));
    assert_non_null(dlerror());
}

#ifdef __aarch64__
#define OLDEST_GLIBC "GLIBC_2.17"
#else
#define OLDEST_GLIBC "GLIBC_2.2.5"
#endif

static void dlvsym_gives_the_same_hooks(void **state)
{
    (void)state;
    void *runtime = open_beside("libcudart.so.13", RTLD_NOW);
    void *plain = dlsym(runtime, "cudaMalloc");
    assert_non_null(plain);
    assert_ptr_equal(dlvsym(runtime, "cudaMalloc", "libcudart.so.13"), plain);
    assert_false(lies_in(plain, "libcudart"));
    assert_null(dlvsym(runtime, "cudaMalloc", "libcudart.so.11"));
    assert_non_null(dlerror());
    assert_non_null(dlvsym(RTLD_DEFAULT, "malloc", OLDEST_GLIBC));
    assert_null(dlvsym(RTLD_DEFAULT, "malloc", "GLIBC_9.9"));
}

static void rtld_next_from_a_library_skips_itself_and_stops_where_nothing_follows(void **state)
{
    (void)state;
    /* libuser and libuser_a both define cudnnCreate, each in a scope of its own: natively there is no next. */
    void *(*create)(void) = (void *(*)(void))dlsym(user, "cudnnCreate");
    assert_null(create());
    void *global_a = dlopen(beside("libuser_a.so"), RTLD_NOW | RTLD_GLOBAL);
    assert_non_null(global_a);
    assert_null(create());
}

static void rtld_next_from_a_library_finds_its_own_next(void **state)
{
    (void)state;
    void *front = open_beside("libuser_front.so", RTLD_NOW); /* needs libuser_a, which has the name too */
    void *(*create)(void) = (void *(*)(void))dlsym(front, "cudnnCreate");
    assert_true(lies_in((void *)create, "libuser_front.so"));
    void *next = create();
    assert_non_null(next);
    assert_true(lies_in(next, "libuser_a.so"));
}

static void rtld_next_of_our_names_follows_the_callers_own_needs_only(void **state)
{
    (void)state;
    void *linked = open_beside("libuser_cuda.so", RTLD_NOW);
    lookup *needs_driver = SYMBOL(lookup, linked, "user_dlsym");
    lookup *needs_nothing = SYMBOL(lookup, user, "user_dlsym");
    assert_ptr_equal(needs_driver(RTLD_NEXT, "cuMemAlloc_v2"), hook("cuMemAlloc_v2"));
    assert_ptr_equal(needs_driver(RTLD_DEFAULT, "cuMemAlloc_v2"), hook("cuMemAlloc_v2"));
    assert_null(needs_nothing(RTLD_NEXT, "cuMemAlloc_v2"));
    assert_non_null(strstr(dlerror(), "cuMemAlloc_v2"));
    assert_null(needs_nothing(RTLD_DEFAULT, "cuMemAlloc_v2"));
    assert_non_null(strstr(dlerror(), "cuMemAlloc_v2"));
}

static void rtld_default_of_the_program_fails_while_no_library_is_in_its_scope(void **state)
{
    (void)state;
    assert_null(dlsym(RTLD_DEFAULT, "cuMemAlloc_v2"));
    assert_non_null(strstr(dlerror(), "undefined symbol: cuMemAlloc_v2"));
    assert_null(dlsym(RTLD_NEXT, "cuMemAlloc_v2"));
    assert_non_null(dlerror());
    void *program = dlopen(NULL, RTLD_NOW);
    assert_null(dlsym(program, "cuMemAlloc_v2"));
    assert_non_null(dlerror());
    dlclose(program);
}

static void a_library_looking_in_its_own_handle_gets_the_hook_of_what_it_needs(void **state)
{
    (void)state;
    void *linked = open_beside("libuser_cuda.so", RTLD_NOW);
    lookup *from_linked = SYMBOL(lookup, linked, "user_dlsym");
    assert_ptr_equal(from_linked(linked, "cuMemAlloc_v2"), hook("cuMemAlloc_v2"));
}

static void a_driver_that_looks_itself_up_finds_itself(void **state)
{
    (void)state;
    void *(*look_up)(const char *) = (void *(*)(const char *))dlsym(driver, "fake_cuda_looks_up");
    void *found = look_up("cuMemAlloc_v2");
    assert_non_null(found);
    assert_true(lies_in(found, "libcuda.so.1"));
}

static void an_unversioned_reference_is_caught_by_the_export(void **state)
{
    (void)state;
    void *linked = open_beside("libuser_cuda.so", RTLD_NOW);
    allocate *alloc = SYMBOL(allocate, linked, "user_driver_malloc");
    unsigned before = hooked("cuMemAlloc_v2");
    unsigned long long pointer = 0;
    assert_int_equal(alloc(&pointer, 1), 0);
    assert_int_equal(hooked("cuMemAlloc_v2"), before + 1);
}

static __attribute__((unused)) void dlopen_searches_the_callers_runpath(void **state)
{
    (void)state;
    void *runpath = open_beside("libuser_runpath.so", RTLD_NOW);
    void *(*open_there)(const char *, int) = (void *(*)(const char *, int))dlsym(runpath, "user_dlopen");
    void *(*open_elsewhere)(const char *, int) = (void *(*)(const char *, int))dlsym(user, "user_dlopen");
    assert_null(open_elsewhere("libprivate.so", RTLD_NOW));
    assert_non_null(strstr(dlerror(), "libprivate.so"));
    void *found = open_there("libprivate.so", RTLD_NOW);
    assert_non_null(found);
    int (*mark)(void) = (int (*)(void))dlsym(found, "user_mark");
    assert_int_equal(mark(), 5);
}

static __attribute__((unused)) void dlopen_keeps_every_flag_but_deepbind(void **state)
{
    (void)state;
    assert_null(dlopen(beside("private/none.so"), RTLD_NOW));
    assert_non_null(dlerror());
    assert_null(dlopen(beside("libuser_sysv.so"), RTLD_NOW | RTLD_NOLOAD));
    /* libuser_sysv refers to cudaMalloc by name only: in a scope of its own it would find nothing but us */
    void *deep = dlopen(beside("libuser_sysv.so"), RTLD_LAZY | RTLD_DEEPBIND);
    assert_non_null(deep);
    void *lazily = dlopen(NULL, RTLD_LAZY);
    assert_non_null(lazily);
    assert_ptr_equal(dlsym(lazily, "dlsym"), (void *)dlsym);
}

static __attribute__((unused)) void a_library_opened_deepbound_still_meets_the_hooks(void **state)
{
    (void)state;
    /* its own driver comes first in a deepbound scope: only stripping the flag keeps it in sight */
    void *deep = dlopen(beside("libuser_deep.so"), RTLD_NOW | RTLD_DEEPBIND);
    assert_non_null(deep);
    allocate *alloc = SYMBOL(allocate, deep, "user_driver_malloc");
    unsigned before = hooked("cuMemAlloc_v2");
    unsigned long long pointer = 0;
    assert_int_equal(alloc(&pointer, 1), 0);
    assert_int_equal(hooked("cuMemAlloc_v2"), before + (getenv("NXMEM_KEEP_DEEPBIND") ? 0 : 1));
}

static void a_driver_under_another_name_and_hash_is_left_alone_beside_libcuda(void **state)
{
    (void)state;
    assert_non_null(dlsym(driver, "cuMemAlloc_v2")); /* libcuda is the driver now */
    void *other = open_beside("other/libdriver.so", RTLD_NOW);
    void *found = dlsym(other, "cuMemAlloc_v2");
    assert_non_null(found);
    assert_true(lies_in(found, "libdriver.so"));
}

static void a_closed_driver_stays_mapped_for_the_pointers_handed_out(void **state)
{
    (void)state;
    void *again = open_beside("cuda/libcuda.so.1", RTLD_NOW);
    allocate *alloc = SYMBOL(allocate, again, "cuMemAlloc_v2");
    for (int i = 0; i < 4; ++i) dlclose(again); /* more often than it was opened */
    unsigned long long pointer = 0;
    assert_int_equal(alloc(&pointer, 8), 0);
    driver = open_beside("cuda/libcuda.so.1", RTLD_NOW);
    assert_ptr_equal(dlsym(driver, "cuMemAlloc_v2"), (void *)alloc);
}

int main(int argc, char **argv)
{
    (void)argc;
    run_inside(argv, beside("libroutes.so"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_ordinary_handle_gives_the_hook_of_every_row_that_the_driver_has),
        cmocka_unit_test(a_found_hook_reaches_the_driver_and_counts_once),
        cmocka_unit_test(names_that_are_not_ours_are_the_drivers_own),
        cmocka_unit_test(a_name_the_driver_lacks_fails_with_the_loaders_words),
        cmocka_unit_test(a_substituted_answer_leaves_no_error_behind),
        cmocka_unit_test(dlvsym_gives_the_same_hooks),
        cmocka_unit_test(rtld_next_from_a_library_skips_itself_and_stops_where_nothing_follows),
        cmocka_unit_test(rtld_next_from_a_library_finds_its_own_next),
        cmocka_unit_test(rtld_next_of_our_names_follows_the_callers_own_needs_only),
        cmocka_unit_test(rtld_default_of_the_program_fails_while_no_library_is_in_its_scope),
        cmocka_unit_test(a_library_looking_in_its_own_handle_gets_the_hook_of_what_it_needs),
        cmocka_unit_test(a_driver_that_looks_itself_up_finds_itself),
        cmocka_unit_test(an_unversioned_reference_is_caught_by_the_export),
#ifndef NXM_SANITIZER_RUNTIME /* a sanitizer's own dlopen in front is the caller then, and refuses RTLD_DEEPBIND */
        cmocka_unit_test(dlopen_searches_the_callers_runpath),
        cmocka_unit_test(dlopen_keeps_every_flag_but_deepbind),
        cmocka_unit_test(a_library_opened_deepbound_still_meets_the_hooks),
#endif
        cmocka_unit_test(a_driver_under_another_name_and_hash_is_left_alone_beside_libcuda),
        cmocka_unit_test(a_closed_driver_stays_mapped_for_the_pointers_handed_out),
    };
    return cmocka_run_group_tests(tests, open_all, NULL);
}
