/* A program that makes a real runtime resolve its driver. What comes after is the runtime's affair: on a driver
 * that is not NVIDIA's it stops with an error of its own. */
#include <stdio.h>
#include <string.h>
#ifdef CUBLAS
#include <dlfcn.h>

int main(int argc, char **argv)
{
    void *context = NULL;
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
    int (*create)(void **) = library ? (int (*)(void **))dlsym(library, "cublasCreate_v2") : NULL;
    if (!create) {
        puts(dlerror());
        return 1;
    }
    (void)create(&context);
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
