/* A program that makes a real runtime resolve its driver. What comes after is the runtime's affair: on a driver
 * that is not NVIDIA's it stops with an error of its own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef LIBRARY
#include <dlfcn.h>

/* A library, its function that makes something, and what that takes behind the place for it. */
int main(int argc, char **argv)
{
    static void *place[32];
    if (argc < 6) return 2;
    void *library = dlopen(argv[1], RTLD_NOW);
    int (*create)(void **, long, long, long) = library ? (int (*)(void **, long, long, long))dlsym(library, argv[2]) : NULL;
    if (!create) {
        puts(dlerror());
        return 1;
    }
    (void)create(place, atol(argv[3]), atol(argv[4]), atol(argv[5]));
    return 0;
}
#else
#include <cuda_runtime_api.h>

int main(void)
{
    void *pointer = NULL;
    (void)cudaMalloc(&pointer, 64);
    return 0;
}
#endif
