/* Who waits for work, and what address comes next. */
#include "facts.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

enum { BYTES = 1 << 20 };

static CUresult free_device(void *p)
{
    return cuMemFree((CUdeviceptr)p);
}

static CUresult free_host(void *p)
{
    return cuMemFreeHost(p);
}

static int free_waits(void)
{
    struct gate g;
    CUdeviceptr p;
    MUST(cuMemAlloc(&p, BYTES));
    close_stream(new_stream(), &g);
    return waits(&g, free_device, (void *)p);
}

static int pool_free_waits(void)
{
    struct gate g;
    CUstream s = new_stream();
    CUdeviceptr p;
    MUST(cuMemAllocAsync(&p, BYTES, s));
    MUST(cuStreamSynchronize(s));
    close_stream(s, &g);
    return waits(&g, free_device, (void *)p);
}

static int host_free_waits(void)
{
    struct gate g;
    void *p;
    MUST(cuMemAllocHost(&p, BYTES));
    close_stream(new_stream(), &g);
    return waits(&g, free_host, p);
}

static int same_stream_reuse(void)
{
    struct gate g;
    CUstream s = new_stream();
    CUdeviceptr p, q;
    MUST(cuMemAllocAsync(&p, BYTES, s));
    MUST(cuStreamSynchronize(s));
    close_stream(s, &g);
    MUST(cuMemFreeAsync(p, s));
    MUST(cuMemAllocAsync(&q, BYTES, s));
    atomic_store(&g.open, 1);
    MUST(cuStreamSynchronize(s));
    return p == q;
}

const struct question order_questions[] = {
    { "free_waits", free_waits },
    { "pool_free_waits", pool_free_waits },
    { "host_free_waits", host_free_waits },
    { "same_stream_reuse", same_stream_reuse },
    { NULL, NULL },
};

/* --- the runtime's exit --------------------------------------------------------------------------------------------- */

static void *open_runtime(void)
{
    static const char *const names[] = { "libcudart.so.13", "libcudart.so.12", "libcudart.so" };
    void *handle = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !handle; i++) handle = dlopen(names[i], RTLD_NOW);
    return handle;
}

static void *runtime;

static bool context_is_active(void)
{
    unsigned flags;
    int active = 1;
    CUresult code = cuDevicePrimaryCtxGetState(0, &flags, &active);
    if (code != CUDA_SUCCESS) unknown("cuDevicePrimaryCtxGetState at exit", (int)code);
    return active;
}

/* Registered before the runtime was there, so it runs after the runtime's own handlers; its destructor is run by hand,
 * since nothing of ours would run later. */
static void look_at_the_context(void)
{
    bool active = context_is_active();
    dlclose(runtime);
    printf("runtime_releases: %d\n", !(active && context_is_active()));
    fflush(stdout);
}

void ask_runtime(void)
{
    MUST(cuInit(0));
    runtime = open_runtime();
    if (!runtime) unknown("no libcudart", 0);
    dlclose(runtime); /* the handler must be older than the runtime's */
    if (atexit(look_at_the_context) != 0) unknown("atexit", 0);
    runtime = open_runtime();
    int (*runtime_free)(void *) = (int (*)(void *))dlsym(runtime, "cudaFree");
    int code = runtime_free ? runtime_free(NULL) : -1;
    if (code != 0) unknown("cudaFree(NULL)", code);
}
