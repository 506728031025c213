/* The driver as this runtime found it: one pointer per row of lookups.def, filled once and never changed.
 *
 * Any thread may call rt_driver_load; the pointers may be used after it returned cudaSuccess. Takes no lock of its own
 * beyond the once-control. The handle of libcuda.so.1 is never closed: entry points stay valid for the process's life. */
#ifndef SIM_RUNTIME_DRIVER_H
#define SIM_RUNTIME_DRIVER_H

#include <cuda_runtime_api.h>
#include <cudaTypedefs.h>

/* The release this copy of the runtime plays. Rows of lookups.def newer than it are not asked for. */
#ifndef SIM_CUDART_VERSION
#define SIM_CUDART_VERSION 13000
#endif

enum rt_lookup {
#define LOOKUP(name, version, flags, symbol) RT_LOOKUP_##name##_##version##_##flags,
#include "lookups.def"
#undef LOOKUP
    RT_LOOKUP_COUNT
};

extern void *rt_driver[RT_LOOKUP_COUNT];

/* cudaErrorInsufficientDriver when there is no libcuda.so.1 or it lacks what cuInit needs. Sticks: asked once. */
cudaError_t rt_driver_load(void);

/* Asked for under versions that cudaTypedefs.h names for the driver's own use only; the type never changed. */
typedef PFN_cuDevicePrimaryCtxRelease_v11000 PFN_cuDevicePrimaryCtxRelease_v7000;
typedef PFN_cuDevicePrimaryCtxReset_v11000 PFN_cuDevicePrimaryCtxReset_v7000;

/* The entry point of that ABI version, typed. Operands of ## are not expanded, so cuda.h's renaming of base names to
 * their newest symbol (cuMemAlloc to cuMemAlloc_v2) does not reach them. */
#define DRV(name, version) ((PFN_##name##_v##version)rt_driver[RT_LOOKUP_##name##_##version##_0])

/* Files under per_stream/ are compiled twice, as the runtime's own header does it for programs: once plainly, once with
 * CUDA_API_PER_THREAD_DEFAULT_STREAM, where the header renames cudaX to cudaX_ptsz and handle 0 names another stream.
 * Both forms of an entry point have one type. */
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define DRV_STREAM(name, version, per_thread_version) \
    ((PFN_##name##_v##version)rt_driver[RT_LOOKUP_##name##_##per_thread_version##_2])
#else
#define DRV_STREAM(name, version, per_thread_version) \
    ((PFN_##name##_v##version)rt_driver[RT_LOOKUP_##name##_##version##_0])
#endif

#endif
