#include "driver.h"

#include <dlfcn.h>
#include <pthread.h>

void *rt_driver[RT_LOOKUP_COUNT];

static const struct lookup {
    const char *name;
    const char *symbol;
    int version;
    unsigned flags;
} lookups[RT_LOOKUP_COUNT] = {
#define LOOKUP(name, version, flags, symbol) {#name, #symbol, version, flags},
#include "lookups.def"
#undef LOOKUP
};

static pthread_once_t load_once = PTHREAD_ONCE_INIT;
static cudaError_t load_result;

/* Stands where the driver has nothing: the caller gets an error instead of a jump to NULL. Its arguments are ignored,
 * which every calling convention that CUDA supports allows. */
static CUresult missing_entry_point(void)
{
    return (CUresult)cudaErrorCallRequiresNewerDriver;
}

static void *or_missing(void *entry_point)
{
    return entry_point ? entry_point : (void *)missing_entry_point;
}

static void resolve_by_name(void *libcuda)
{
    for (int i = 0; i < RT_LOOKUP_COUNT; i++)
        rt_driver[i] = or_missing(dlsym(libcuda, lookups[i].symbol));
}

static void *ask(PFN_cuGetProcAddress_v12000 resolver, const struct lookup *l)
{
    void *entry_point = NULL;
    CUdriverProcAddressQueryResult status;

    if (l->version > SIM_CUDART_VERSION)
        return NULL;
    if (resolver(l->name, &entry_point, l->version, l->flags, &status) != CUDA_SUCCESS)
        return NULL;
    return entry_point;
}

/* The first four questions go to the pointer that dlsym gave, all others to the resolver that the driver gave for
 * itself. Tools that hook the resolver see both: this order is what they are tested with. */
static void resolve_by_driver(PFN_cuGetProcAddress_v12000 first)
{
    const struct lookup nothing = {"", "", 0, 0};
    const int own = RT_LOOKUP_cuGetProcAddress_12000_0;
    PFN_cuGetProcAddress_v12000 resolver;

    (void)ask(first, &nothing);
    for (int i = 0; i <= own; i++)
        rt_driver[i] = ask(first, &lookups[i]);
    resolver = rt_driver[own] ? (PFN_cuGetProcAddress_v12000)rt_driver[own] : first;
    for (int i = own + 1; i < RT_LOOKUP_COUNT; i++)
        rt_driver[i] = ask(resolver, &lookups[i]);
    for (int i = 0; i < RT_LOOKUP_COUNT; i++)
        rt_driver[i] = or_missing(rt_driver[i]);
}

static void load(void)
{
    void *libcuda = dlopen("libcuda.so.1", RTLD_NOW);
    void *resolver;

    if (!libcuda) {
        load_result = cudaErrorInsufficientDriver;
        return;
    }
    resolver = dlsym(libcuda, "cuGetProcAddress_v2");
    if (resolver)
        resolve_by_driver((PFN_cuGetProcAddress_v12000)resolver);
    else
        resolve_by_name(libcuda);
    if (rt_driver[RT_LOOKUP_cuInit_2000_0] == (void *)missing_entry_point)
        load_result = cudaErrorInsufficientDriver;
}

cudaError_t rt_driver_load(void)
{
    pthread_once(&load_once, load);
    return load_result;
}
