/* A runtime that finds the driver as the real one does and says how often it was called. Built as
 * libcudart.so.12 and .13 with NVIDIA's form of version nodes. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

typedef int get_proc(const char *name, void **function, int version, uint64_t flags, int *status);

static unsigned calls;
static int quiet; /* allocate without the driver, as from a cache */

EXPORT unsigned fake_cudart_calls(void);
EXPORT unsigned fake_cudart_calls(void) { return __atomic_load_n(&calls, __ATOMIC_RELAXED); }
EXPORT void fake_cudart_quiet(int on);
EXPORT void fake_cudart_quiet(int on) { quiet = on; }

static void *driver(const char *name, int version, uint64_t flags)
{
    void *handle = dlopen("libcuda.so.1", RTLD_NOW), *first = NULL, *second = NULL, *found = NULL;
    if (!handle || !(first = dlsym(handle, "cuGetProcAddress_v2"))) return NULL;
    if (((get_proc *)first)("cuGetProcAddress", &second, 12000, 0, NULL)) return NULL;
    return ((get_proc *)second)(name, &found, version, flags, NULL) ? NULL : found;
}

static int note(void)
{
    __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
    return 0;
}

EXPORT int cudaRuntimeGetVersion(int *version);
EXPORT int cudaRuntimeGetVersion(int *version)
{
    *version = VERSION * 1000;
    return 0;
}

EXPORT int cudaMalloc(void **pointer, size_t size);
EXPORT int cudaMalloc(void **pointer, size_t size)
{
    static char cache[4096];
    note();
    if (quiet) { *pointer = cache; return 0; }
    int (*allocate)(void **, size_t) = (int (*)(void **, size_t))driver("cuMemAlloc", 3020, 0);
    return allocate ? allocate(pointer, size) : 35;
}

EXPORT int cudaFree(void *pointer);
EXPORT int cudaFree(void *pointer)
{
    note();
    if (quiet) return 0;
    int (*release)(void *) = (int (*)(void *))driver("cuMemFree", 3020, 0);
    return release ? release(pointer) : 35;
}

EXPORT int cudaGetDriverEntryPoint(const char *name, void **function, unsigned long long flags, int *status);
EXPORT int cudaGetDriverEntryPoint(const char *name, void **function, unsigned long long flags, int *status)
{
    note();
    *function = driver(name, 12000, flags);
    if (status) *status = 0;
    return *function ? 0 : 500;
}

#define PLAIN(name) EXPORT int name(void); EXPORT int name(void) { return note(); }
PLAIN(cudaMallocHost) PLAIN(cudaFreeHost) PLAIN(cudaMallocAsync) PLAIN(cudaFreeAsync)
#if VERSION >= 13
PLAIN(cudaGetDriverEntryPointByVersion)
#endif
