/* A driver without cuGetProcAddress_v2: the runtime finds what there is by plain names, and says so of what there is not. */
#include "runtime_fixture.h"

#include <dlfcn.h>

static void the_driver_is_one_without_the_newer_resolver(void **state)
{
    void *libcuda = dlopen("libcuda.so.1", RTLD_NOW);

    (void)state;
    assert_non_null(libcuda);
    assert_null(dlsym(libcuda, "cuGetProcAddress_v2"));
    assert_non_null(dlsym(libcuda, "cuGetProcAddress"));
}

static void memory_works_through_plain_names(void **state)
{
    char out = 3, in = 0;
    void *p;

    (void)state;
    assert_ok(cudaMalloc(&p, 100));
    assert_ok(cudaMemcpy(p, &out, 1, cudaMemcpyHostToDevice));
    assert_ok(cudaMemcpy(&in, p, 1, cudaMemcpyDeviceToHost));
    assert_int_equal(in, 3);
    assert_ok(cudaFree(p));
}

static void what_a_newer_driver_has_is_an_error_and_no_jump_to_null(void **state)
{
    unsigned long long id;

    (void)state;
    assert_int_equal(cudaStreamGetId(NULL, &id), cudaErrorCallRequiresNewerDriver);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_driver_is_one_without_the_newer_resolver),
        cmocka_unit_test(memory_works_through_plain_names),
        cmocka_unit_test(what_a_newer_driver_has_is_an_error_and_no_jump_to_null),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
