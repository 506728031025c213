/* Runtimes 12 and 13 in one process, each reached by those who were linked to it, and the labels. */
#include "inside.h"

typedef int allocate(void **pointer, size_t size);
typedef int release(void *pointer);
typedef unsigned count(void);

static void *runtime12, *runtime13, *driver;

static int is(const char *name) { return strcmp(getenv("NXM_TEST_CASE"), name) == 0; }
static unsigned calls(void *runtime) { return SYMBOL(count, runtime, "fake_cudart_calls")(); }

static unsigned observed(uint64_t *bytes, const char **api)
{
    unsigned (*ask)(uint64_t *, const char **) =
        (unsigned (*)(uint64_t *, const char **))dlsym(RTLD_DEFAULT, "nxmem_test_observed");
    return ask(bytes, api);
}

static void quiet(void *runtime, int on)
{
    void (*set)(int) = (void (*)(int))dlsym(runtime, "fake_cudart_quiet");
    set(on);
}

static int open_both(void **state)
{
    (void)state;
    driver = open_beside("cuda/libcuda.so.1", RTLD_NOW);
    /* load order must not decide */
    if (!is("ordered")) runtime13 = open_beside("libcudart.so.13", RTLD_NOW);
    runtime12 = open_beside("libcudart.so.12", RTLD_NOW | (is("global12") ? RTLD_GLOBAL : 0));
    runtime13 = open_beside("libcudart.so.13", RTLD_NOW);
    return 0;
}

static void without_a_runtime_nothing_is_done(void **state)
{
    (void)state;
    void *pointer = &pointer, *before = pointer;
    assert_int_equal(((allocate *)hook("cudaMalloc"))(&pointer, 4), 35);
    assert_ptr_equal(pointer, before);
    assert_int_equal(((release *)hook("cudaFree"))(NULL), 35);
    assert_null(dlsym(RTLD_DEFAULT, "cudaMalloc"));
}

static void one_runtime_serves_everybody(void **state)
{
    (void)state;
    driver = open_beside("cuda/libcuda.so.1", RTLD_NOW);
    runtime12 = open_beside("libcudart.so.12", RTLD_NOW);
    void *anybody = open_beside("libuser_sysv.so", RTLD_LAZY); /* refers to cudaMalloc without a version */
    void *pointer = NULL;
    assert_int_equal(SYMBOL(allocate, anybody, "user_malloc")(&pointer, 4), 0);
    assert_int_equal(calls(runtime12), 1);
    assert_int_equal(SYMBOL(allocate, anybody, "user_malloc")(&pointer, 4), 0);
    assert_int_equal(calls(runtime12), 2);
}

static void the_only_runtime_closed_by_everybody_stays_for_the_pointers_handed_out(void **state)
{
    (void)state;
    allocate *malloc12 = SYMBOL(allocate, runtime12, "cudaMalloc");
    count *calls12 = SYMBOL(count, runtime12, "fake_cudart_calls");
    for (int i = 0; i < 3; ++i) dlclose(runtime12); /* more often than it was opened */
    void *pointer = NULL;
    unsigned before = calls12();
    assert_int_equal(malloc12(&pointer, 4), 0);
    assert_int_equal(calls12(), before + 1);
}

static void a_library_reaches_the_runtime_it_was_linked_to(void **state)
{
    (void)state;
    void *user12 = open_beside("libuser12.so", RTLD_NOW), *user13 = open_beside("libuser13.so", RTLD_NOW);
    void *pointer = NULL;
    for (int turn = 0; turn < 3; ++turn) { /* cold, then cached */
        unsigned calls12 = calls(runtime12), calls13 = calls(runtime13);
        assert_int_equal(SYMBOL(allocate, user12, "user_malloc")(&pointer, 4), 0);
        assert_int_equal(calls(runtime12), calls12 + 1);
        assert_int_equal(calls(runtime13), calls13);
        assert_int_equal(SYMBOL(allocate, user13, "user_malloc")(&pointer, 4), 0);
        assert_int_equal(calls(runtime12), calls12 + 1);
        assert_int_equal(calls(runtime13), calls13 + 1);
    }
}

static void a_pointer_taken_from_one_runtime_reaches_that_one(void **state)
{
    (void)state;
    allocate *malloc12 = SYMBOL(allocate, runtime12, "cudaMalloc");
    allocate *malloc13 = SYMBOL(allocate, runtime13, "cudaMalloc");
    assert_ptr_not_equal(malloc12, malloc13);
    unsigned calls12 = calls(runtime12), calls13 = calls(runtime13), before = labelled("cudaMalloc");
    void *pointer = NULL;
    assert_int_equal(malloc13(&pointer, 4), 0);
    assert_int_equal(calls(runtime13), calls13 + 1);
    assert_int_equal(malloc12(&pointer, 4), 0);
    assert_int_equal(calls(runtime12), calls12 + 1);
    assert_int_equal(labelled("cudaMalloc"), before + 2);
    assert_ptr_equal(dlsym(runtime12, "cudaMalloc"), (void *)malloc12);
}

static void who_was_linked_to_none_reaches_the_one_in_the_programs_scope(void **state)
{
    (void)state;
    void *anybody = open_beside("libuser_sysv.so", RTLD_LAZY);
    void *pointer = NULL;
    unsigned calls12 = calls(runtime12);
    assert_int_equal(SYMBOL(allocate, anybody, "user_malloc")(&pointer, 4), 0);
    assert_int_equal(calls(runtime12) - calls12, is("swapped") ? 0 : 1); /* else the first loaded */
}

static void a_caller_that_takes_anothers_place_is_looked_up_afresh(void **state)
{
    (void)state;
    void *pointer = NULL;
    uintptr_t places[2] = {0, 0};
    for (int turn = 0; turn < 2; ++turn) { /* the two libraries have one layout: the second lands where the first was */
        void *user = open_beside(turn ? "libplace13.so" : "libplace12.so", RTLD_NOW);
        allocate *alloc = SYMBOL(allocate, user, "user_malloc");
        places[turn] = (uintptr_t)alloc;
        void *own = turn ? runtime13 : runtime12;
        unsigned before = calls(own);
        assert_int_equal(alloc(&pointer, 4), 0);
        assert_int_equal(calls(own), before + 1);
        dlclose(user);
    }
    assert_true(places[0] == places[1]);
}

static void a_closed_runtime_stays_for_the_pointers_handed_out(void **state)
{
    (void)state;
    allocate *malloc12 = SYMBOL(allocate, runtime12, "cudaMalloc");
    dlclose(runtime12);
    dlclose(runtime12);
    void *pointer = NULL;
    assert_int_equal(malloc12(&pointer, 4), 0);
    runtime12 = open_beside("libcudart.so.12", RTLD_NOW);
    assert_ptr_equal(dlsym(runtime12, "cudaMalloc"), (void *)malloc12);
}

static void a_driver_call_inside_carries_the_runtimes_name_once(void **state)
{
    (void)state;
    allocate *alloc = SYMBOL(allocate, runtime13, "cudaMalloc");
    release *freed = SYMBOL(release, runtime13, "cudaFree");
    uint64_t bytes;
    const char *api;
    unsigned named = labelled("cudaMalloc"), unnamed = labelled("cuMemAlloc_v2"), seen = observed(&bytes, &api);
    void *pointer = NULL;
    assert_int_equal(alloc(&pointer, 64), 0);
    assert_int_equal(labelled("cudaMalloc"), named + 1);
    assert_int_equal(labelled("cuMemAlloc_v2"), unnamed);
    assert_int_equal(observed(&bytes, &api), seen); /* it was seen inside: not observed twice */
    assert_int_equal(freed(pointer), 0);
    assert_int_equal(labelled("cudaFree"), 1);
    /* and the label is gone afterwards */
    int (*direct)(unsigned long long *, size_t) = (int (*)(unsigned long long *, size_t))dlsym(driver, "cuMemAlloc_v2");
    unsigned long long address;
    assert_int_equal(direct(&address, 64), 0);
    assert_int_equal(labelled("cudaMalloc"), named + 1);
    assert_int_equal(labelled("cuMemAlloc_v2"), unnamed + 1);
}

static void memory_that_came_without_a_driver_call_is_observed(void **state)
{
    (void)state;
    allocate *alloc = SYMBOL(allocate, runtime13, "cudaMalloc");
    release *freed = SYMBOL(release, runtime13, "cudaFree");
    uint64_t bytes = 0;
    const char *api = "";
    quiet(runtime13, 1);
    unsigned before = observed(&bytes, &api);
    void *pointer = NULL;
    assert_int_equal(alloc(&pointer, 640), 0);
    assert_int_equal(observed(&bytes, &api), before + 1);
    assert_int_equal(bytes, 640);
    assert_string_equal(api, "cudaMalloc");
    assert_int_equal(freed(pointer), 0);
    assert_int_equal(observed(&bytes, &api), before + 2);
    assert_int_equal(freed(NULL), 0);
    assert_int_equal(observed(&bytes, &api), before + 2);
    quiet(runtime13, 0);
}

static void a_row_that_the_runtime_lacks_is_not_found(void **state)
{
    (void)state;
    assert_null(dlsym(runtime12, "cudaGetDriverEntryPointByVersion"));
    assert_non_null(dlerror());
    assert_non_null(dlsym(runtime13, "cudaGetDriverEntryPointByVersion"));
    assert_non_null(dlsym(runtime13, "cudaRuntimeGetVersion"));
    assert_true(lies_in(dlsym(runtime13, "cudaRuntimeGetVersion"), "libcudart.so.13"));
}

int main(int argc, char **argv)
{
    static const char *const cases[] = {"alone", "ordered", "swapped", "global12"};
    (void)argc;
    if (!getenv("NXM_TEST_CASE")) return run_each(argv, cases, 4);
    const struct CMUnitTest alone[] = {
        cmocka_unit_test(without_a_runtime_nothing_is_done),
        cmocka_unit_test(one_runtime_serves_everybody),
        cmocka_unit_test(the_only_runtime_closed_by_everybody_stays_for_the_pointers_handed_out),
    };
    const struct CMUnitTest both[] = {
        cmocka_unit_test(a_library_reaches_the_runtime_it_was_linked_to),
        cmocka_unit_test(a_pointer_taken_from_one_runtime_reaches_that_one),
        cmocka_unit_test(who_was_linked_to_none_reaches_the_one_in_the_programs_scope),
        cmocka_unit_test(a_caller_that_takes_anothers_place_is_looked_up_afresh),
        cmocka_unit_test(a_closed_runtime_stays_for_the_pointers_handed_out),
        cmocka_unit_test(a_driver_call_inside_carries_the_runtimes_name_once),
        cmocka_unit_test(memory_that_came_without_a_driver_call_is_observed),
        cmocka_unit_test(a_row_that_the_runtime_lacks_is_not_found),
    };
    if (is("alone")) return cmocka_run_group_tests_name("alone", alone, NULL, NULL);
    return cmocka_run_group_tests_name(getenv("NXM_TEST_CASE"), both, open_both, NULL);
}
