/* Preloaded in front of the shim: stands between a runtime and what the shim hands it, and writes one line for
 * each name asked of cuGetProcAddress to the file of NXM_TEST_RECORD: name, version, flags, result, library and
 * symbol of the address, address. The runtime's own door is watched: dlsym of the resolver, and the resolver it gets
 * through that one; and dlsym of the driver's names. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

typedef void *lookup(void *handle, const char *name);
typedef int resolver(const char *name, void **function, int version, uint64_t flags, int *status);

enum { BY_DLSYM = -1 }; /* instead of a version: the suffixed name itself was asked for */

typedef int resolver_of_11(const char *name, void **function, int version, uint64_t flags);

static resolver *first, *second; /* as the shim answered */
static resolver_of_11 *first_of_11, *second_of_11;

static void write_down(const char *name, int version, uint64_t flags, int result, const void *address)
{
    Dl_info info = {.dli_fname = NULL};
    char line[512];
    const char *path = getenv("NXM_TEST_RECORD");
    int file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;
    if (file < 0) return;
    if (result == 0 && address) dladdr(address, &info);
    const char *slash = info.dli_fname ? strrchr(info.dli_fname, '/') : NULL;
    int length = snprintf(line, sizeof line, "%s %d %llu %d %s %s %p\n", *name ? name : "-", version,
                          (unsigned long long)flags, result, slash ? slash + 1 : "-",
                          info.dli_sname ? info.dli_sname : "-", result ? NULL : address);
    if (write(file, line, (size_t)length) != length) abort();
    close(file);
}

static int ask_second(const char *name, void **function, int version, uint64_t flags, int *status)
{
    int result = second(name, function, version, flags, status);
    write_down(name, version, flags, result, function ? *function : NULL);
    return result;
}

static int ask_first(const char *name, void **function, int version, uint64_t flags, int *status)
{
    int result = first(name, function, version, flags, status);
    write_down(name, version, flags, result, function ? *function : NULL);
    if (result == 0 && !strcmp(name, "cuGetProcAddress") && version >= 12000) {
        memcpy(&second, function, sizeof second);
        *function = (void *)ask_second;
    }
    return result;
}

/* The runtime of CUDA 11 knows the resolver of four arguments only, and asks it for itself too. */
static int ask_second_of_11(const char *name, void **function, int version, uint64_t flags)
{
    int result = second_of_11(name, function, version, flags);
    write_down(name, version, flags, result, function ? *function : NULL);
    return result;
}

static int ask_first_of_11(const char *name, void **function, int version, uint64_t flags)
{
    int result = first_of_11(name, function, version, flags);
    write_down(name, version, flags, result, function ? *function : NULL);
    if (result == 0 && !strcmp(name, "cuGetProcAddress") && version < 12000) {
        memcpy(&second_of_11, function, sizeof second_of_11);
        *function = (void *)ask_second_of_11;
    }
    return result;
}

EXPORT void *dlsym(void *handle, const char *name)
{
    static lookup *next;
    if (!next) { /* a lookup by version passes the shim, which has none; the C library's own then finds the shim */
        lookup *libc = (lookup *)dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
        next = (lookup *)libc(RTLD_NEXT, "dlsym");
    }
    if (strcmp(name, "cuGetProcAddress_v2")) {
        void *found = next(handle, name);
        if (name[0] == 'c' && name[1] == 'u' && name[2] >= 'A' && name[2] <= 'Z') write_down(name, BY_DLSYM, 0, !found, found);
        if (!found || strcmp(name, "cuGetProcAddress")) return found;
        first_of_11 = (resolver_of_11 *)found;
        return (void *)ask_first_of_11;
    }
    first = (resolver *)next(handle, name);
    return first ? (void *)ask_first : NULL;
}
