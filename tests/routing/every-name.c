/* Prints whose function each name is by each route, and which: one line "route name owner symbol". A program that knows nothing of
 * the shim; its output natively says what the output behind the shim must be.
 *
 *   every-name DRIVER RUNTIME [global]     paths; RUNTIME's names come on standard input; `global`: the driver is for all to see
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef int lookup4(const char *, void **, int, uint64_t);
typedef int lookup5(const char *, void **, int, uint64_t, int *);
typedef int entry_point(const char *, void **, unsigned long long, int *);
typedef int entry_point_by_version(const char *, void **, unsigned, unsigned long long, int *);
typedef const char *symbol_at(size_t, int *);

static const int versions[] = {2000, 3020, 4000, 6050, 7000, 10000, 10010, 11000, 11020, 12000, 12030, 12050, 13000, 13020, 99000};
enum { VERSIONS = sizeof versions / sizeof versions[0] };

static void *driver;
static symbol_at *symbol;

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void say(const char *route, const char *name, const void *address)
{
    Dl_info info;
    if (!address) {
        printf("%s %s null -\n", route, name);
        return;
    }
    if (!dladdr(address, &info) || !info.dli_fname) {
        printf("%s %s nowhere -\n", route, name);
        return;
    }
    const char *file = base_name(info.dli_fname);
    const char *owner = !strncmp(file, "libcuda.", 8) ? "driver" : !strncmp(file, "libcudart.", 10) ? "runtime" : file;
    printf("%s %s %s %s\n", route, name, owner, info.dli_sname && info.dli_saddr == address ? info.dli_sname : "-");
}

static void by_dlsym(const char *name)
{
    static void *whole;
    if (!whole) whole = dlopen(NULL, RTLD_NOW);
    say("handle", name, dlsym(driver, name));
    say("default", name, dlsym(RTLD_DEFAULT, name));
    say("next", name, dlsym(RTLD_NEXT, name));
    say("program", name, dlsym(whole, name));
    say("dlvsym", name, dlvsym(driver, name, "GLIBC_2.17"));
}

/* The name without what tells its forms apart. */
static void base_of(const char *name, char *ret_base, size_t capacity)
{
    snprintf(ret_base, capacity, "%s", name);
    for (char *end; (end = strrchr(ret_base, '_'));) {
        if (strcmp(end, "_ptsz") && strcmp(end, "_ptds") && !(end[1] == 'v' && end[2] >= '1' && end[2] <= '9' && !end[3])) return;
        *end = '\0';
    }
}

static void by_version(const char *base, lookup4 *four, lookup5 *five)
{
    char route[64];
    for (int v = 0; v < VERSIONS; ++v)
        for (unsigned flags = 0; flags < 3; ++flags) {
            void *found = NULL;
            int status = 0;
            if (four && four(base, &found, versions[v], flags)) found = NULL;
            snprintf(route, sizeof route, "four/%d/%u", versions[v], flags);
            say(route, base, found);
            found = NULL;
            if (five && five(base, &found, versions[v], flags, flags ? &status : NULL)) found = NULL;
            snprintf(route, sizeof route, "five/%d/%u", versions[v], flags);
            say(route, base, found);
        }
}

static void by_runtime(const char *base, entry_point *plain, entry_point_by_version *versioned, const char *form)
{
    char route[64];
    for (unsigned flags = 0; flags < 3; ++flags) {
        void *found = NULL;
        int status = 0;
        if (plain && plain(base, &found, flags, &status)) found = NULL;
        snprintf(route, sizeof route, "runtime%s/%u", form, flags);
        say(route, base, found);
        for (int v = 0; v < VERSIONS; ++v) {
            found = NULL;
            if (versioned && versioned(base, &found, (unsigned)versions[v], flags, &status)) found = NULL;
            snprintf(route, sizeof route, "runtime%s/%d/%u", form, versions[v], flags);
            say(route, base, found);
        }
    }
}

int main(int argc, char **argv)
{
    char last[128] = "", base[128], name[128];
    if (argc < 3) return 2;
    void *runtime = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
    driver = dlopen(argv[1], RTLD_NOW | (argc > 3 ? RTLD_GLOBAL : RTLD_LOCAL));
    if (!driver || !runtime) {
        puts(dlerror());
        return 1;
    }
    symbol = (symbol_at *)dlsym(driver, "sim_symbol");
    lookup4 *four = (lookup4 *)dlsym(driver, "cuGetProcAddress");
    lookup5 *five = (lookup5 *)dlsym(driver, "cuGetProcAddress_v2");
    int simulated;
    const char *each;
    for (size_t i = 0; (each = symbol(i, &simulated)); ++i) by_dlsym(each);
    by_dlsym("cuNoSuchThing");
    by_dlsym("sim_symbol");
    while (scanf("%127s", name) == 1) say("handle", name, dlsym(runtime, name));
    for (size_t i = 0; (each = symbol(i, &simulated)); ++i) {
        base_of(each, base, sizeof base);
        if (!strcmp(base, last)) continue;
        by_version(base, four, five);
        by_runtime(base, (entry_point *)dlsym(runtime, "cudaGetDriverEntryPoint"),
                   (entry_point_by_version *)dlsym(runtime, "cudaGetDriverEntryPointByVersion"), "");
        by_runtime(base, (entry_point *)dlsym(runtime, "cudaGetDriverEntryPoint_ptsz"),
                   (entry_point_by_version *)dlsym(runtime, "cudaGetDriverEntryPointByVersion_ptsz"), "_ptsz");
        strcpy(last, base);
    }
    static const char *const more[] = {"cuFutureMemAlloc", "cuFutureCall", "cuNoSuchThing", "cuMemAlloc_v2", ""};
    for (size_t i = 0; i < sizeof more / sizeof more[0]; ++i) by_version(more[i], four, five);
    void *found = NULL; /* by the pointer that a runtime asks with */
    int status = 0;
    if (five && !five("cuGetProcAddress", &found, 12000, 0, &status) && found)
        for (size_t i = 0; (each = symbol(i, &simulated)); ++i) {
            void *address = NULL;
            base_of(each, base, sizeof base);
            if (((lookup5 *)found)(base, &address, 13000, 0, &status)) address = NULL;
            say("itself", base, address);
        }
    return 0;
}
