/* What the driver's tests share: a retained primary context per test, and counts that start from nothing. The tests are
 * linked with the simulated driver itself, so its controls are called by name. */
#ifndef SIM_DRIVER_FIXTURE_H
#define SIM_DRIVER_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <cuda.h>

#include "simcuda.h"

#define assert_cu(expected, call) assert_int_equal((call), (expected))
#define assert_ok(call) assert_cu(CUDA_SUCCESS, call)

static inline int context_setup(void **state)
{
    CUcontext c;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&c, 0) || cuCtxSetCurrent(c)) return -1;
    sim_reset();
    *state = c;
    return 0;
}

/* Every test ends with nothing left on the device and no finding of the oracle that it did not count itself. */
static inline int context_teardown(void **state)
{
    (void)state;
    sim_hold_new_streams(0);
    sim_release_all();
    return cuDevicePrimaryCtxReset(0) ? -1 : 0;
}

static inline CUstream new_stream(void)
{
    CUstream s;
    assert_ok(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    return s;
}

static inline CUfunction any_function(void)
{
    CUmodule m;
    CUfunction f;
    assert_ok(cuModuleLoadData(&m, "image"));
    assert_ok(cuModuleGetFunction(&f, m, "kernel"));
    return f;
}

#define on_device(test) cmocka_unit_test_setup_teardown(test, context_setup, context_teardown)

#endif
