/* A library between the program and CUDA: its lookups are made by *its* code, its references are those it
 * was linked with (USES_CUDART: cudaMalloc and cudaFree of whatever runtime stands on its link line). */
#include <dlfcn.h>
#include <stddef.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT void *user_dlsym(void *handle, const char *name);
EXPORT void *user_dlsym(void *handle, const char *name)
{
    void *found = dlsym(handle, name);
    __asm__ volatile("" : "+r"(found)); /* no tail call: the return address must be here */
    return found;
}

EXPORT void *user_dlvsym(void *handle, const char *name, const char *version);
EXPORT void *user_dlvsym(void *handle, const char *name, const char *version)
{
    void *found = dlvsym(handle, name, version);
    __asm__ volatile("" : "+r"(found));
    return found;
}

EXPORT void *user_dlopen(const char *file, int flags);
EXPORT void *user_dlopen(const char *file, int flags)
{
    void *handle = dlopen(file, flags);
    __asm__ volatile("" : "+r"(handle));
    return handle;
}

EXPORT int user_mark(void);
EXPORT int user_mark(void) { return MARK; }

/* cuDNN's habit: its own name, from the next library on. Itself must not be found again. */
EXPORT void *cudnnCreate(void);
EXPORT void *cudnnCreate(void)
{
    void *found = dlsym(RTLD_NEXT, "cudnnCreate");
    __asm__ volatile("" : "+r"(found));
    return found;
}

#ifdef USES_CUDART
int cudaMalloc(void **pointer, size_t size);
int cudaFree(void *pointer);
EXPORT int user_malloc(void **pointer, size_t size);
EXPORT int user_malloc(void **pointer, size_t size)
{
    int result = cudaMalloc(pointer, size);
    __asm__ volatile("" : "+r"(result));
    return result;
}
EXPORT int user_free(void *pointer);
EXPORT int user_free(void *pointer)
{
    int result = cudaFree(pointer);
    __asm__ volatile("" : "+r"(result));
    return result;
}
#endif
#ifdef USES_CUDA
int cuMemAlloc_v2(unsigned long long *pointer, size_t size);
EXPORT int user_driver_malloc(unsigned long long *pointer, size_t size);
EXPORT int user_driver_malloc(unsigned long long *pointer, size_t size)
{
    int result = cuMemAlloc_v2(pointer, size);
    __asm__ volatile("" : "+r"(result));
    return result;
}
#endif
