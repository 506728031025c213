/* B01, B02, B09, B10: every allocation function by cuGetProcAddress in its old and new versions, and cuGetProcAddress by
 * itself, on whichever driver is there. Nothing of the driver is linked. */
#include <dlfcn.h>

#include "case.h"

typedef CUresult (*lookup4)(const char *, void **, int, cuuint64_t);
typedef CUresult (*lookup5)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

static lookup4 four;
static lookup5 five;

static CUresult ask(const char *name, int version, cuuint64_t flags, void **ret_function)
{
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
    CUresult result;

    *ret_function = (void *)(uintptr_t)MARK;
    result = five ? five(name, ret_function, version, flags, &status) : four(name, ret_function, version, flags);
    printf("%s %d %llu -> %d, %d, %s\n", name, version, (unsigned long long)flags, (int)result, (int)status,
           *ret_function == NULL ? "null" : *ret_function == (void *)(uintptr_t)MARK ? "untouched" : "found");
    return result;
}

static void through_itself(void)
{
    void *found = NULL;

    if (ask("cuGetProcAddress", 11030, 0, &found) == CUDA_SUCCESS && found) {
        *(void **)&four = found;
        lookup5 kept = five;
        five = NULL;
        ask("cuMemAlloc", 3020, 0, &found);
        ask("cuGetProcAddress", 11030, 0, &found);
        five = kept;
    }
    if (five && ask("cuGetProcAddress", 12000, 0, &found) == CUDA_SUCCESS && found)
        *(void **)&five = found;
}

int main(void)
{
    static const char *const names[] = { "cuMemAlloc", "cuMemFree", "cuMemAllocAsync", "cuMemFreeAsync", "cuMemAllocPitch",
                                         "cuMemGetInfo", "cuMemCreate", "cuMemAllocFromPoolAsync", "cuNoSuchThing",
                                         "cuMemAlloc_v2", "cuMemAlloc_v3", "cuFromTheFuture", "" };
    static const int versions[] = { 0, 2000, 3010, 3020, 11020, 12000, 13000, 13020, 99000 };
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *function = NULL;
    CUresult (*init)(unsigned), (*retain)(CUcontext *, CUdevice), (*set)(CUcontext), (*allocate)(CUdeviceptr *, size_t, cuuint64_t),
        (*release)(CUdeviceptr, cuuint64_t);
    CUcontext context = NULL;
    CUdeviceptr p = 0;

    alarm(200);
    if (!driver)
        return 95;
    *(void **)&four = dlsym(driver, "cuGetProcAddress");
    *(void **)&five = dlsym(driver, "cuGetProcAddress_v2");
    FACT(four != NULL);
    FACT(five != NULL);
    if (!four && !five)
        return 94;
    through_itself();
    for (size_t n = 0; n < sizeof names / sizeof *names; n++)
        for (size_t v = 0; v < sizeof versions / sizeof *versions; v++)
            for (cuuint64_t flags = 0; flags < 4; flags++)
                ask(names[n], versions[v], flags, &function);
    *(void **)&init = dlsym(driver, "cuInit");
    *(void **)&retain = dlsym(driver, "cuDevicePrimaryCtxRetain");
    *(void **)&set = dlsym(driver, "cuCtxSetCurrent");
    SHOW(init(0));
    SHOW(retain(&context, 0));
    SHOW(set(context));
    for (size_t v = 3; v < sizeof versions / sizeof *versions; v++) {
        if (ask("cuMemAlloc", versions[v], 0, (void **)&allocate) || ask("cuMemFree", versions[v], 0, (void **)&release))
            continue;
        /* A form of the future has one argument more, and refuses this one; today's do not look at it. */
        SHOW(allocate(&p, 1000, MARK));
        SHOW(release(p, MARK));
    }
    for (size_t n = 0; n + 1 < sizeof names / sizeof *names; n++)
        printf("dlsym %s: %d\n", names[n], dlsym(driver, names[n]) != NULL);
    return 0;
}
