#include "cuda.h"

#include <dlfcn.h>
#include <string.h>

static void *library, *context;

static bool driver(const char *name, void *ret_function) {
    void *found = dlsym(library, name);
    memcpy(ret_function, &found, sizeof found);
    return found != NULL;
}

bool cuda_enter(uint32_t device) {
    int (*init)(unsigned), (*count_of)(int *), (*retain)(void **, int);
    int count = 0;

    library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library || !driver("cuInit", &init) || !driver("cuDeviceGetCount", &count_of) ||
        !driver("cuDevicePrimaryCtxRetain", &retain))
        return false;
    if (init(0) != 0 || count_of(&count) != 0 || device >= (uint32_t)count) return false;
    if (retain(&context, (int)device) != 0) return false;
    cuda_enter_thread();
    return true;
}

bool cuda_is_here(void) {
    return library != NULL;
}

void cuda_enter_thread(void) {
    int (*set_current)(void *);
    if (context && driver("cuCtxSetCurrent", &set_current)) set_current(context);
}
