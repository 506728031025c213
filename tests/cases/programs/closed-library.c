/* B18: libraries that allocate and are closed again; the shim and the plugin are closed too, as far as that goes. */
#include <dlfcn.h>
#include <stdbool.h>

#include "case.h"

/* Gives back what it takes, except for the last time where `once_more` says so. */
static void open_and_close(const char *library, bool once_more)
{
    for (int i = 0; i < 8; i++) {
        void *handle = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
        if (!handle)
            return;
        dlclose(handle);
        if (once_more && i == 7)
            dlclose(handle);
    }
}

int main(int argc, char **argv)
{
    CUdeviceptr p = 0;

    if (argc < 2)
        return 97;
    begin_case();
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return 96;
    CUresult (*leak)(void);
    *(void **)&leak = dlsym(library, "leak_of_a_library");
    for (int i = 0; i < 10; i++)
        SHOW(leak());
    dlclose(library);
    FACT(dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD) == NULL);
    if (getenv("SHIM") && getenv("PLUGIN")) {
        open_and_close(getenv("SHIM"), true);
        open_and_close(getenv("PLUGIN"), false);
    }
    SHOW(cuMemAlloc(&p, 4096));
    SHOW(cuMemFree(p));
    return 0;
}
