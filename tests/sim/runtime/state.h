/* What the runtime keeps between calls: the calling thread's last error and chosen device, and which primary contexts
 * it has retained.
 *
 * Thread-local: last error, chosen device. Process-wide: the table of primary contexts, under one mutex that is never
 * held while the driver runs. Everything here may be called from any thread. */
#ifndef SIM_RUNTIME_STATE_H
#define SIM_RUNTIME_STATE_H

#include "driver.h"

/* CUresult and cudaError_t have shared their numbers since CUDA 10.1; this is the one place that relies on it. */
static inline cudaError_t rt_error(CUresult result)
{
    return (cudaError_t)result;
}

/* Remembers a failure for cudaGetLastError and returns it; a success changes nothing. An error that costs the context is
 * remembered with the primary context too: from then on rt_enter answers it to every thread, until the device is reset. */
cudaError_t rt_record(cudaError_t error);

/* The driver is loaded and initialised: cudaErrorCudartUnloading once the runtime has ended. Needs no context. */
cudaError_t rt_initialise(void);

/* As above, and a context is current: the one the program made current, else the primary context of the thread's
 * device, retained on first use and again after a reset. */
cudaError_t rt_enter(void);

/* The device whose context is current, else the one the thread chose (0 at first). Call after rt_initialise. */
int rt_device(void);

cudaError_t rt_device_choose(int device);

/* Resets the device's primary context; the next rt_enter of any thread retains a new one. */
cudaError_t rt_device_reset(void);

/* Gives back what the runtime retained, for the end of the process. Whatever the driver answers, it is given back. */
void rt_release_primaries(void);

/* One runtime call that is one driver call. */
#define RT_CALL(entry_point, ...)                        \
    ({                                                   \
        cudaError_t error_ = rt_enter();                 \
        if (error_ == cudaSuccess)                       \
            error_ = rt_error(entry_point(__VA_ARGS__)); \
        rt_record(error_);                               \
    })

/* The same for calls that need no context. */
#define RT_CALL_NO_CONTEXT(entry_point, ...)             \
    ({                                                   \
        cudaError_t error_ = rt_initialise();            \
        if (error_ == cudaSuccess)                       \
            error_ = rt_error(entry_point(__VA_ARGS__)); \
        rt_record(error_);                               \
    })

#endif
