/* A driver without cuGetProcAddress_v2: the runtime finds what there is by plain names, and says so of what there is not. */
#include "runtime_fixture.h"

#include <stdlib.h>

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
        cmocka_unit_test(memory_works_through_plain_names),
        cmocka_unit_test(what_a_newer_driver_has_is_an_error_and_no_jump_to_null),
    };

    setenv("SIMCUDA_PROFILE", "11.4", 1); /* read at the driver's first call, which no constructor makes */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
