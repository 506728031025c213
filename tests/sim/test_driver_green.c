/* Green contexts, and contexts that are attached to. */
#include "driver_fixture.h"

#include <dlfcn.h>

static CUgreenCtx new_green(unsigned least)
{
    CUdevResource whole, part;
    CUdevResourceDesc desc;
    CUgreenCtx green;
    unsigned groups = 1;
    assert_ok(cuDeviceGetDevResource(0, &whole, CU_DEV_RESOURCE_TYPE_SM));
    assert_ok(cuDevSmResourceSplitByCount(&part, &groups, &whole, NULL, 0, least));
    assert_int_equal(groups, 1);
    assert_ok(cuDevResourceGenerateDesc(&desc, &part, 1));
    assert_ok(cuGreenCtxCreate(&green, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    return green;
}

static void a_device_is_split_into_shares(void **state)
{
    (void)state;
    CUdevResource whole, parts[4], rest, other;
    CUdevResourceDesc desc;
    unsigned groups = 0;
    assert_ok(cuDeviceGetDevResource(0, &whole, CU_DEV_RESOURCE_TYPE_SM));
    assert_ok(cuDevSmResourceSplitByCount(NULL, &groups, &whole, NULL, 0, 10)); /* rounded to 16 */
    assert_int_equal(groups, whole.sm.smCount / 16);
    groups = 3;
    assert_ok(cuDevSmResourceSplitByCount(parts, &groups, &whole, &rest, 0, 10));
    assert_int_equal(groups, 3);
    assert_int_equal(parts[2].sm.smCount, 16);
    assert_int_equal(rest.sm.smCount, whole.sm.smCount - 3 * 16);
    assert_cu(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION,
              cuDevSmResourceSplitByCount(parts, &groups, &whole, &rest, 0, whole.sm.smCount + 1));
    other = whole;
    other.type = CU_DEV_RESOURCE_TYPE_INVALID;
    assert_cu(CUDA_ERROR_INVALID_RESOURCE_TYPE, cuDevResourceGenerateDesc(&desc, &other, 1));
}

static void a_green_contexts_memory_belongs_to_its_primary_context(void **state)
{
    CUcontext primary = *state, c, seen;
    CUgreenCtx green = new_green(8);
    CUdevResource share;
    CUdeviceptr p;
    int same = 0;
    assert_ok(cuCtxFromGreenCtx(&c, green));
    assert_ok(cuGreenCtxGetDevResource(green, &share, CU_DEV_RESOURCE_TYPE_SM));
    assert_int_equal(share.sm.smCount, 8);
    assert_ok(cuCtxPushCurrent(c));
    assert_ok(cuMemAlloc(&p, 64));
    assert_ok(cuPointerGetAttribute(&seen, CU_POINTER_ATTRIBUTE_CONTEXT, p));
    same = seen == primary;
    assert_true(same);
    assert_ok(cuCtxPopCurrent(NULL));
    assert_cu(CUDA_ERROR_INVALID_CONTEXT, cuCtxDestroy(c));
    assert_ok(cuGreenCtxDestroy(green));
    assert_cu(CUDA_ERROR_INVALID_CONTEXT, cuGreenCtxDestroy(green));
    assert_int_equal(sim_live_bytes("device"), 64); /* it outlives the green one */
    assert_ok(cuMemFree(p));
}

static void a_green_context_keeps_its_primary_one(void **state)
{
    (void)state;
    CUgreenCtx green = new_green(8);
    unsigned flags;
    int active = 0;
    assert_ok(cuDevicePrimaryCtxRelease(0));
    assert_ok(cuDevicePrimaryCtxGetState(0, &flags, &active));
    assert_int_equal(active, 1);
    assert_ok(cuGreenCtxDestroy(green));
    assert_ok(cuDevicePrimaryCtxGetState(0, &flags, &active));
    assert_int_equal(active, 0);
}

static void a_reset_takes_green_contexts_along(void **state)
{
    (void)state;
    CUgreenCtx green = new_green(8);
    CUstream s;
    assert_ok(cuGreenCtxStreamCreate(&s, green, CU_STREAM_NON_BLOCKING, 0));
    assert_ok(cuDevicePrimaryCtxReset(0));
    assert_cu(CUDA_ERROR_INVALID_CONTEXT, cuGreenCtxStreamCreate(&s, green, CU_STREAM_NON_BLOCKING, 0));
    assert_cu(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuGreenCtxDestroy(green));
}

static void a_primary_contexts_work_includes_its_green_ones(void **state)
{
    CUcontext primary = *state, c;
    CUgreenCtx green = new_green(8), seen;
    CUstream s, outside = new_stream();
    CUevent whole, part;
    unsigned long long id = 0, as_context = 1;
    assert_ok(cuGreenCtxStreamCreate(&s, green, CU_STREAM_NON_BLOCKING, 0));
    assert_cu(CUDA_ERROR_INVALID_VALUE, cuGreenCtxStreamCreate(&s, green, CU_STREAM_DEFAULT, 0));
    assert_ok(cuStreamGetGreenCtx(s, &seen));
    assert_ptr_equal(seen, green);
    assert_ok(cuStreamGetGreenCtx(outside, &seen));
    assert_null(seen);
    assert_ok(cuStreamGetCtx_v2(s, &c, &seen));
    assert_true(c == primary && seen == green);
    assert_ok(cuEventCreate(&whole, CU_EVENT_DISABLE_TIMING));
    assert_ok(cuCtxFromGreenCtx(&c, green));
    assert_ok(cuGreenCtxGetId(green, &id));
    assert_ok(cuCtxGetId(c, &as_context));
    assert_int_equal(id, as_context);
    assert_ok(cuCtxPushCurrent(c));
    assert_ok(cuEventCreate(&part, CU_EVENT_DISABLE_TIMING));
    assert_ok(cuCtxPopCurrent(NULL));

    sim_hold(outside);
    assert_ok(cuLaunchKernel(any_function(), 1, 1, 1, 32, 1, 1, 0, outside, NULL, NULL));
    assert_ok(cuGreenCtxRecordEvent(green, part));
    assert_ok(cuEventQuery(part)); /* its own work only */
    assert_ok(cuCtxRecordEvent(primary, whole));
    assert_cu(CUDA_ERROR_NOT_READY, cuEventQuery(whole));
    sim_release(outside);
    assert_ok(cuEventSynchronize(whole));

    sim_hold(s);
    assert_ok(cuLaunchKernel(any_function(), 1, 1, 1, 32, 1, 1, 0, s, NULL, NULL));
    assert_ok(cuCtxRecordEvent(primary, whole));
    assert_cu(CUDA_ERROR_NOT_READY, cuEventQuery(whole));
    assert_ok(cuGreenCtxRecordEvent(green, part));
    assert_cu(CUDA_ERROR_NOT_READY, cuEventQuery(part));
    assert_cu(CUDA_ERROR_INVALID_HANDLE, cuGreenCtxRecordEvent(green, whole));
    sim_release(s);
    assert_ok(cuEventSynchronize(whole));
    assert_ok(cuGreenCtxWaitEvent(green, whole));
    assert_ok(cuEventDestroy(whole));
    assert_ok(cuEventDestroy(part));
    assert_ok(cuGreenCtxDestroy(green));
}

static void the_last_to_detach_destroys(void **state)
{
    (void)state;
    CUresult (*attach)(CUcontext *, unsigned) = (CUresult (*)(CUcontext *, unsigned))dlsym(RTLD_DEFAULT, "cuCtxAttach");
    CUresult (*detach)(CUcontext) = (CUresult (*)(CUcontext))dlsym(RTLD_DEFAULT, "cuCtxDetach");
    uint64_t before = sim_live_objects("context");
    CUcontext c, same;
    assert_ok(cuCtxCreate(&c, NULL, 0, 0));
    assert_ok(attach(&same, 0));
    assert_ptr_equal(c, same);
    assert_ok(detach(c));
    assert_int_equal(sim_live_objects("context"), before + 1);
    assert_ok(cuCtxPopCurrent(NULL));
    assert_cu(CUDA_ERROR_INVALID_CONTEXT, detach(c)); /* not current */
    assert_ok(cuCtxPushCurrent(c));
    assert_ok(detach(c));
    assert_int_equal(sim_live_objects("context"), before);
    assert_cu(CUDA_ERROR_INVALID_CONTEXT, cuCtxPushCurrent(c));
}

static void a_full_stack_refuses_and_keeps_nothing(void **state)
{
    (void)state;
    CUcontext c, more = NULL;
    uint64_t before = sim_live_objects("context");
    int depth = 1;
    assert_ok(cuCtxGetCurrent(&c));
    while (cuCtxPushCurrent(c) == CUDA_SUCCESS) depth++;
    assert_cu(CUDA_ERROR_OUT_OF_MEMORY, cuCtxCreate(&more, NULL, 0, 0));
    assert_null(more);
    assert_int_equal(sim_live_objects("context"), before);
    while (--depth) assert_ok(cuCtxPopCurrent(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        on_device(a_device_is_split_into_shares),
        on_device(a_green_contexts_memory_belongs_to_its_primary_context),
        on_device(a_green_context_keeps_its_primary_one),
        on_device(a_reset_takes_green_contexts_along),
        on_device(a_primary_contexts_work_includes_its_green_ones),
        on_device(the_last_to_detach_destroys),
        on_device(a_full_stack_refuses_and_keeps_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
