/* What the runtime's tests share: a checked call, and the simulator's controls found by name, as they are absent from a
 * real driver. */
#ifndef SIM_RUNTIME_FIXTURE_H
#define SIM_RUNTIME_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <cuda_runtime_api.h>

#define assert_ok(call) assert_int_equal((call), cudaSuccess)

/* A value that no call may leave behind by accident. */
static inline void *marker(void)
{
    return (void *)(uintptr_t)0x5eed;
}

#endif
