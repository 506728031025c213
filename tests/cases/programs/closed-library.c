/* B18: libraries that allocate and are closed again; the shim and the plugin are closed too, as far as that goes. */
#include "case.h"

#include <dlfcn.h>

static void close_all(const char *part)
{
    for (int i = 0; i < 8; i++) {
        void *handle = dlopen(part, RTLD_NOW | RTLD_NOLOAD);
        if (!handle)
            return;
        dlclose(handle);
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
    if (getenv("CLOSE_THESE")) {
        char names[1024];
        strncpy(names, getenv("CLOSE_THESE"), sizeof names - 1);
        names[sizeof names - 1] = '\0';
        for (char *name = strtok(names, ":"); name; name = strtok(NULL, ":"))
            close_all(name);
    }
    SHOW(cuMemAlloc(&p, 4096));
    SHOW(cuMemFree(p));
    return 0;
}
