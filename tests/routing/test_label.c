/* The label by itself: nesting, and what an outer call learns of an inner one. */
#include "inside.h"

#include "interpose/label.h"

static void the_outermost_name_wins_and_pop_restores(void **state)
{
    (void)state;
    assert_int_equal(nxm_label_take(NXM_API_cuMemAlloc_v2, 0), NXM_API_cuMemAlloc_v2);
    struct nxm_label outer = nxm_label_push(NXM_API_cudaMalloc3D, 0);
    struct nxm_label inner = nxm_label_push(NXM_API_cudaMalloc, 0);
    assert_int_equal(nxm_label_take(NXM_API_cuMemAlloc_v2, 0), NXM_API_cudaMalloc3D);
    assert_true(nxm_label_pop(inner));
    assert_int_equal(nxm_label_take(NXM_API_cuMemAlloc_v2, 0), NXM_API_cudaMalloc3D);
    assert_true(nxm_label_pop(outer));
    assert_int_equal(nxm_label_take(NXM_API_cuMemAlloc_v2, 0), NXM_API_cuMemAlloc_v2);
}

static void what_fired_inside_fired_inside_the_outer_call_too(void **state)
{
    (void)state;
    struct nxm_label outer = nxm_label_push(NXM_API_cudaMallocPitch, 0);
    struct nxm_label inner = nxm_label_push(NXM_API_cudaMalloc, 0);
    (void)nxm_label_take(NXM_API_cuMemAlloc_v2, 0);
    assert_true(nxm_label_pop(inner));
    struct nxm_label second = nxm_label_push(NXM_API_cudaFree, 0);
    assert_false(nxm_label_pop(second)); /* each call answers for itself */
    assert_true(nxm_label_pop(outer));
}

static void a_call_after_a_fired_one_starts_clean(void **state)
{
    (void)state;
    struct nxm_label first = nxm_label_push(NXM_API_cudaMalloc, 0);
    (void)nxm_label_take(NXM_API_cuMemAlloc_v2, 0);
    assert_true(nxm_label_pop(first));
    struct nxm_label second = nxm_label_push(NXM_API_cudaMalloc, 0);
    assert_false(nxm_label_pop(second));
    assert_false(nxm_label_pop(nxm_label_push(NXM_API_cudaFree, 0)));
}

static void every_number_has_the_name_of_its_symbol(void **state)
{
    (void)state;
    assert_string_equal(nxm_api_names[NXM_API_UNKNOWN], "unknown");
    assert_string_equal(nxm_api_names[NXM_API_cuMemFreeAsync_ptsz], "cuMemFreeAsync_ptsz");
    for (unsigned api = 0; api < NXM_API_COUNT; ++api) assert_non_null(nxm_api_names[api]);
}

static void an_inner_allocation_of_another_size_is_not_the_callers(void **state)
{
    (void)state;
    struct nxm_label label = nxm_label_push(NXM_API_cudaMalloc, 4096);
    assert_int_equal(nxm_label_take(NXM_API_cuMemAlloc_v2, 1 << 20), NXM_API_cuMemAlloc_v2);
    assert_int_equal(nxm_label_take(NXM_API_cuMemAlloc_v2, 4096), NXM_API_cudaMalloc);
    assert_true(nxm_label_pop(label));
    label = nxm_label_push(NXM_API_cudaMalloc, 4096);
    assert_int_equal(nxm_label_take(NXM_API_cuMemAlloc_v2, 1 << 20), NXM_API_cuMemAlloc_v2);
    assert_false(nxm_label_pop(label)); /* what it was asked for has not been seen */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_outermost_name_wins_and_pop_restores),
        cmocka_unit_test(what_fired_inside_fired_inside_the_outer_call_too),
        cmocka_unit_test(a_call_after_a_fired_one_starts_clean),
        cmocka_unit_test(every_number_has_the_name_of_its_symbol),
        cmocka_unit_test(an_inner_allocation_of_another_size_is_not_the_callers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
