/* A driver that only knows its own names: every entry point says that it was hit. Built with several
 * PROFILEs (the driver's version) and linked -Bsymbolic, so that no preload captures its inner calls. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifndef PROFILE
#define PROFILE 13000
#endif
#define EXPORT __attribute__((visibility("default")))

static const char *hit = "";
static unsigned calls;
static int odd; /* see fake_cuda_odd */

static int note(const char *name)
{
    __atomic_store_n(&hit, name, __ATOMIC_RELAXED);
    __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
    return 0;
}

EXPORT const char *fake_cuda_hit(void);
EXPORT const char *fake_cuda_hit(void) { return __atomic_load_n(&hit, __ATOMIC_RELAXED); }
EXPORT unsigned fake_cuda_calls(void);
EXPORT unsigned fake_cuda_calls(void) { return __atomic_load_n(&calls, __ATOMIC_RELAXED); }
/* 1: cuGetProcAddress hands out addresses that are no exported symbol's. 2: an exported newer form. */
EXPORT void fake_cuda_odd(int how);
EXPORT void fake_cuda_odd(int how) { odd = how; }
/* A driver that looks itself up, as WSL2's does. */
EXPORT void *fake_cuda_looks_up(const char *name);
EXPORT void *fake_cuda_looks_up(const char *name)
{
    void *self = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    void *found = self ? dlsym(self, name) : NULL;
    if (self) dlclose(self);
    return found;
}

#define PLAIN(name) EXPORT int name(void); EXPORT int name(void) { return note(#name); }
#define GIVES(name)                                                                  \
    EXPORT int name(uint64_t *pointer, size_t size);                                 \
    EXPORT int name(uint64_t *pointer, size_t size)                                  \
    {                                                                                \
        static uint64_t next = 0x10000;                                              \
        if (pointer) *pointer = __atomic_add_fetch(&next, size + 512, __ATOMIC_RELAXED); \
        return note(#name);                                                          \
    }

PLAIN(cuInit) PLAIN(cuDriverGetVersion) PLAIN(cuDeviceGet) PLAIN(cuMemAlloc) GIVES(cuMemAlloc_v2) PLAIN(cuMemAlloc_v9)
PLAIN(cuMemFree) PLAIN(cuMemFree_v2) PLAIN(cuMemAllocPitch_v2) PLAIN(cuMemGetInfo_v2) PLAIN(cuMemAllocManaged)
PLAIN(cuMemHostAlloc) PLAIN(cuMemFreeHost) PLAIN(cuCtxGetCurrent)
PLAIN(cuStreamSynchronize) PLAIN(cuStreamSynchronize_ptsz)
PLAIN(cuCtxDestroy) PLAIN(cuCtxDestroy_v2) PLAIN(cuStreamBeginCapture) PLAIN(cuStreamBeginCapture_v2)
PLAIN(cuStreamBeginCapture_ptsz) PLAIN(cuStreamBeginCapture_v2_ptsz)
#if PROFILE >= 11020
GIVES(cuMemAllocAsync) GIVES(cuMemAllocAsync_ptsz) PLAIN(cuMemFreeAsync) PLAIN(cuMemFreeAsync_ptsz)
PLAIN(cuMemCreate) PLAIN(cuMemMap)
#endif

static int hidden_cuMemAlloc(uint64_t *pointer, size_t size) { return cuMemAlloc_v2(pointer, size); }
static int hidden_cuMemAlloc_legacy(void) { return note("legacy"); }
static int hidden_cuMemAllocAsync_ptsz(void) { return note("cuMemAllocAsync_ptsz"); }

#if PROFILE >= 11030
EXPORT int cuGetProcAddress(const char *name, void **function, int version, uint64_t flags);
#endif
#if PROFILE >= 12000
EXPORT int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status);
#endif

struct entry {
    const char *name;
    int since, per_thread;
    void *function;
};

#define ENTRY(name, since, per_thread, symbol) {name, since, per_thread, (void *)symbol}
static const struct entry entries[] = { /* newest first */
    ENTRY("cuInit", 2000, 0, cuInit),
    ENTRY("cuMemAlloc", 3020, 0, cuMemAlloc_v2),
    ENTRY("cuMemAlloc", 2000, 0, cuMemAlloc),
    ENTRY("cuMemFree", 3020, 0, cuMemFree_v2),
    ENTRY("cuMemFree", 2000, 0, cuMemFree),
    ENTRY("cuCtxDestroy", 4000, 0, cuCtxDestroy_v2),
    ENTRY("cuCtxDestroy", 2000, 0, cuCtxDestroy),
    ENTRY("cuCtxGetCurrent", 4000, 0, cuCtxGetCurrent),
    ENTRY("cuStreamBeginCapture", 10010, 0, cuStreamBeginCapture_v2),
    ENTRY("cuStreamBeginCapture", 10000, 0, cuStreamBeginCapture),
    ENTRY("cuStreamBeginCapture", 10010, 2, cuStreamBeginCapture_v2_ptsz),
    ENTRY("cuStreamBeginCapture", 10000, 2, cuStreamBeginCapture_ptsz),
    ENTRY("cuStreamSynchronize", 2000, 0, cuStreamSynchronize),
    ENTRY("cuStreamSynchronize", 7000, 2, cuStreamSynchronize_ptsz),
#if PROFILE >= 11020
    ENTRY("cuMemAllocAsync", 11020, 0, cuMemAllocAsync),
    ENTRY("cuMemAllocAsync", 11020, 2, cuMemAllocAsync_ptsz),
    ENTRY("cuMemFreeAsync", 11020, 0, cuMemFreeAsync),
    ENTRY("cuMemFreeAsync", 11020, 2, cuMemFreeAsync_ptsz),
#endif
#if PROFILE >= 12000
    ENTRY("cuGetProcAddress", 12000, 0, cuGetProcAddress_v2),
#endif
#if PROFILE >= 11030
    ENTRY("cuGetProcAddress", 11030, 0, cuGetProcAddress),
#endif
};

static void *odd_answer(const char *name, int version, uint64_t flags)
{
    if (odd == 1 && !strcmp(name, "cuMemAlloc"))
        return version >= 3020 ? (void *)hidden_cuMemAlloc : (void *)hidden_cuMemAlloc_legacy;
    if (odd == 1 && !strcmp(name, "cuMemAllocAsync") && flags == 2) return (void *)hidden_cuMemAllocAsync_ptsz;
    if (odd == 2 && !strcmp(name, "cuMemAlloc")) return (void *)cuMemAlloc_v9;
    return NULL;
}

static __attribute__((unused)) int answer(const char *name, void **function, int version, uint64_t flags)
{
    if (!function || !name) return 1;
    *function = odd_answer(name, version, flags);
    for (size_t pass = flags == 2 ? 0 : 1; pass < 2 && !*function; ++pass) /* per-thread forms, then the others */
        for (size_t i = 0; i < sizeof entries / sizeof entries[0] && !*function; ++i)
            if ((entries[i].per_thread == 2) == (pass == 0) && version >= entries[i].since &&
                !strcmp(entries[i].name, name))
                *function = entries[i].function;
    return *function ? 0 : 500;
}

#if PROFILE >= 11030
EXPORT int cuGetProcAddress(const char *name, void **function, int version, uint64_t flags)
{
    note("cuGetProcAddress");
    return answer(name, function, version, flags);
}
#endif
#if PROFILE >= 12000
EXPORT int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status)
{
    note("cuGetProcAddress_v2");
    int result = answer(name, function, version, flags);
    if (status) *status = result ? 1 : 0;
    return result;
}
#endif
