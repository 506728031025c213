/* A program that was never built for us. With arguments: the folder of the fixtures, then what to do: a shim to open, or
 * "inside". Prints one line that the tests compare. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#ifdef WRAPS
/* A program with a wrapper of its own in front of everybody's: the next one is ours, and ours must not come back. */
int cudaMalloc(void **pointer, size_t size);
unsigned fake_cudart_calls(void);
static unsigned depth, deepest;

int cudaMalloc(void **pointer, size_t size)
{
    int (*next)(void **, size_t) = (int (*)(void **, size_t))dlsym(RTLD_NEXT, "cudaMalloc");
    if (++depth > deepest) deepest = depth;
    int result = next && depth < 10 ? next(pointer, size) : 35;
    --depth;
    return result;
}

/* and functions under the driver's names, asked for before there is a driver */
int cuInit(unsigned flags);
int cuInit(unsigned flags) { return (int)flags; }
int cuMemAlloc_v2(unsigned long long *pointer, size_t size);
int cuMemAlloc_v2(unsigned long long *pointer, size_t size) { return pointer && size ? 0 : 1; }

static void wrapped(void)
{
    void *pointer = NULL;
    int own = dlsym(dlopen(NULL, RTLD_NOW), "cuMemAlloc_v2") == (void *)cuMemAlloc_v2;
    int result = cudaMalloc(&pointer, 64);
    printf("own %d, wrapped %d deep %u, runtime called %u, ", own, result, deepest, fake_cudart_calls());
}
#endif
#ifdef LINKED
int cuMemAlloc_v2(unsigned long long *pointer, size_t size);
#endif
typedef int allocate(unsigned long long *pointer, size_t size);
typedef const char *text(void);

static const char *where(const void *address)
{
    Dl_info info;
    if (!dladdr(address, &info)) return "nowhere";
    const char *slash = strrchr(info.dli_fname, '/');
    return slash ? slash + 1 : info.dli_fname;
}

/* A driver that looks itself up must meet itself: it is the caller that tells. */
static int looks_itself_up(void *driver)
{
    void *(*look)(const char *) = (void *(*)(const char *))dlsym(driver, "fake_cuda_looks_up");
    if (!look) return 1;
    printf("the driver finds %s\n", where(look("cuMemAlloc_v2")));
    return 0;
}

int main(int argc, char **argv)
{
    char path[4096];
    unsigned long long pointer = 0;
    if (argc < 2) return 0;
#ifdef WRAPS
    wrapped();
#endif
#ifdef LINKED
    if (cuMemAlloc_v2(&pointer, 64)) return 3;
    printf("linked %s", where((void *)dlsym(RTLD_DEFAULT, "cuMemAlloc_v2")));
#endif
    snprintf(path, sizeof path, "%s/cuda/libcuda.so.1", argv[1]);
    void *driver = dlopen(path, RTLD_NOW);
    if (driver && argc > 2 && !strcmp(argv[2], "inside")) return looks_itself_up(driver);
    if (argc > 2) { /* the shim is opened only now */
        void *shim = dlopen(argv[2], RTLD_NOW);
        if (!shim) {
            puts(dlerror());
            return 4;
        }
    }
    if (!driver) {
        puts(dlerror());
        return 1;
    }
    allocate *alloc = (allocate *)dlsym(driver, "cuMemAlloc_v2");
    text *hit = (text *)dlsym(driver, "fake_cuda_hit");
    if (!alloc || !hit || alloc(&pointer, 64) || !pointer) return 2;
    printf("%s by %s\n", hit(), where((void *)alloc));
    return 0;
}
