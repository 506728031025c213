#include "registry.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

/* Called by code that nvcc generates; declared in no header that a C program may include. */
void **__cudaRegisterFatBinary(void *fat_cubin);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *host_function, char *device_function, const char *device_name,
                            int thread_limit, void *tid, void *bid, void *block_dim, void *grid_dim, int *warp_size);
void __cudaRegisterVar(void **handle, char *host_variable, char *device_address, const char *device_name, int ext,
                       size_t size, int constant, int global);
void __cudaRegisterManagedVar(void **handle, void **host_variable, char *device_address, const char *device_name,
                              int ext, size_t size, int constant, int global);
char __cudaInitModule(void **handle);
cudaError_t __cudaGetKernel(cudaKernel_t *ret_kernel, const void *host_function);

/* The handle that programs hold is the address of `image`. */
struct fat_binary {
    void *image;
    CUlibrary library; /* NULL until first use */
};

enum symbol_kind { SYMBOL_FUNCTION, SYMBOL_VARIABLE };

struct symbol {
    struct symbol *next;
    struct fat_binary *owner;
    const void *host;
    const char *name; /* borrowed from the program, which outlives its registration */
    CUkernel kernel;  /* NULL until first use */
    enum symbol_kind kind;
};

enum { BUCKETS = 4096 };
static struct symbol *buckets[BUCKETS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct symbol **bucket_of(const void *host)
{
    return &buckets[((uintptr_t)host >> 4) % BUCKETS];
}

static void add(void **handle, const void *host, const char *name, enum symbol_kind kind)
{
    struct symbol *symbol = malloc(sizeof *symbol);
    struct symbol **bucket = bucket_of(host);

    if (!symbol)
        return; /* the stub stays unknown: launching it answers cudaErrorInvalidDeviceFunction */
    *symbol = (struct symbol){NULL, (struct fat_binary *)(void *)handle, host, name, NULL, kind};
    pthread_mutex_lock(&lock);
    symbol->next = *bucket;
    *bucket = symbol;
    pthread_mutex_unlock(&lock);
}

void **__cudaRegisterFatBinary(void *fat_cubin)
{
    struct fat_binary *binary = malloc(sizeof *binary);

    if (!binary)
        return NULL;
    *binary = (struct fat_binary){fat_cubin, NULL};
    return &binary->image;
}

void __cudaRegisterFatBinaryEnd(void **handle)
{
    (void)handle;
}

/* Nothing needs the module before its first use. */
char __cudaInitModule(void **handle)
{
    (void)handle;
    return 1;
}

void __cudaUnregisterFatBinary(void **handle)
{
    struct fat_binary *binary = (struct fat_binary *)(void *)handle;

    if (!binary)
        return;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < BUCKETS; i++)
        for (struct symbol **link = &buckets[i]; *link;) {
            struct symbol *symbol = *link;

            if (symbol->owner == binary) {
                *link = symbol->next;
                free(symbol);
            } else {
                link = &symbol->next;
            }
        }
    pthread_mutex_unlock(&lock);
    if (binary->library)
        (void)DRV(cuLibraryUnload, 12000)(binary->library);
    free(binary);
}

void __cudaRegisterFunction(void **handle, const char *host_function, char *device_function, const char *device_name,
                            int thread_limit, void *tid, void *bid, void *block_dim, void *grid_dim, int *warp_size)
{
    (void)device_function, (void)thread_limit, (void)tid, (void)bid, (void)block_dim, (void)grid_dim, (void)warp_size;
    add(handle, host_function, device_name, SYMBOL_FUNCTION);
}

void __cudaRegisterVar(void **handle, char *host_variable, char *device_address, const char *device_name, int ext,
                       size_t size, int constant, int global)
{
    (void)device_address, (void)ext, (void)size, (void)constant, (void)global;
    add(handle, host_variable, device_name, SYMBOL_VARIABLE);
}

void __cudaRegisterManagedVar(void **handle, void **host_variable, char *device_address, const char *device_name,
                              int ext, size_t size, int constant, int global)
{
    (void)device_address, (void)ext, (void)size, (void)constant, (void)global;
    add(handle, host_variable, device_name, SYMBOL_VARIABLE);
}

static struct symbol *find_locked(const void *host, enum symbol_kind kind)
{
    for (struct symbol *symbol = *bucket_of(host); symbol; symbol = symbol->next)
        if (symbol->host == host && symbol->kind == kind)
            return symbol;
    return NULL;
}

static bool is_kernel_locked(const void *kernel)
{
    for (int i = 0; i < BUCKETS; i++)
        for (struct symbol *symbol = buckets[i]; symbol; symbol = symbol->next)
            if (symbol->kernel && (const void *)symbol->kernel == kernel)
                return true;
    return false;
}

void *rt_kernel_symbol(const void *kernel)
{
    const void *host = kernel;

    pthread_mutex_lock(&lock);
    for (int i = 0; i < BUCKETS; i++)
        for (struct symbol *symbol = buckets[i]; symbol; symbol = symbol->next)
            if (symbol->kernel && (const void *)symbol->kernel == kernel)
                host = symbol->host;
    pthread_mutex_unlock(&lock);
    return (void *)(uintptr_t)host;
}

/* Two threads may both load; the second one's library is unloaded again. */
static cudaError_t library_of(struct fat_binary *binary, CUlibrary *ret_library)
{
    CUlibrary loaded, known;
    CUresult result;

    pthread_mutex_lock(&lock);
    known = binary->library;
    pthread_mutex_unlock(&lock);
    if (!known) {
        result = DRV(cuLibraryLoadData, 12000)(&loaded, binary->image, NULL, NULL, 0, NULL, NULL, 0);
        if (result != CUDA_SUCCESS)
            return rt_error(result);
        pthread_mutex_lock(&lock);
        known = binary->library;
        if (!known)
            binary->library = loaded;
        pthread_mutex_unlock(&lock);
        if (known)
            (void)DRV(cuLibraryUnload, 12000)(loaded);
        else
            known = loaded;
    }
    *ret_library = known;
    return cudaSuccess;
}

/* A program does not unregister a binary whose stubs it is still launching, so `owner` outlives the unlocked middle. */
static cudaError_t kernel_load(const void *host, struct fat_binary *owner, const char *name, CUkernel *ret_kernel)
{
    CUlibrary library;
    struct symbol *symbol;
    cudaError_t error = library_of(owner, &library);

    if (!error)
        error = rt_error(DRV(cuLibraryGetKernel, 12000)(ret_kernel, library, name));
    if (error)
        return error;
    pthread_mutex_lock(&lock);
    symbol = find_locked(host, SYMBOL_FUNCTION);
    if (symbol)
        symbol->kernel = *ret_kernel;
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

cudaError_t rt_kernel_find(const void *host, CUkernel *ret_kernel)
{
    struct symbol found = {0};
    struct symbol *symbol;
    bool given;

    pthread_mutex_lock(&lock);
    symbol = find_locked(host, SYMBOL_FUNCTION);
    if (symbol)
        found = *symbol;
    given = !symbol && is_kernel_locked(host);
    pthread_mutex_unlock(&lock);
    if (given)
        found.kernel = (CUkernel)(uintptr_t)host;
    if (!symbol && !given)
        return cudaErrorInvalidDeviceFunction;
    if (!found.kernel)
        return kernel_load(host, found.owner, found.name, ret_kernel);
    *ret_kernel = found.kernel;
    return cudaSuccess;
}

cudaError_t rt_function_find(const void *symbol, CUfunction *ret_function)
{
    CUkernel kernel;
    cudaError_t error = rt_kernel_find(symbol, &kernel);

    return error ? error : rt_error(DRV(cuKernelGetFunction, 12000)(ret_function, kernel));
}

cudaError_t __cudaGetKernel(cudaKernel_t *ret_kernel, const void *host_function)
{
    CUkernel kernel;
    cudaError_t error = rt_initialise();

    if (!error)
        error = rt_kernel_find(host_function, &kernel);
    if (!error)
        *ret_kernel = kernel;
    return rt_record(error);
}

cudaError_t cudaGetKernel(cudaKernel_t *kernelPtr, const void *entryFuncAddr)
{
    if (!kernelPtr)
        return rt_record(cudaErrorInvalidValue);
    return __cudaGetKernel(kernelPtr, entryFuncAddr);
}

cudaError_t cudaGetFuncBySymbol(cudaFunction_t *functionPtr, const void *symbolPtr)
{
    CUfunction function;
    cudaError_t error = rt_enter();

    if (!error && !functionPtr)
        error = cudaErrorInvalidValue;
    if (!error)
        error = rt_function_find(symbolPtr, &function);
    if (!error)
        *functionPtr = function;
    return rt_record(error);
}

/* The device side of a __device__ variable, by the address of its host shadow. */
static cudaError_t variable_find(const void *host, CUdeviceptr *ret_address, size_t *ret_size)
{
    struct fat_binary *owner = NULL;
    const char *name = NULL;
    struct symbol *symbol;
    CUlibrary library;
    cudaError_t error = rt_enter();

    pthread_mutex_lock(&lock);
    symbol = find_locked(host, SYMBOL_VARIABLE);
    if (symbol) {
        owner = symbol->owner;
        name = symbol->name;
    }
    pthread_mutex_unlock(&lock);
    if (!error && !owner)
        error = cudaErrorInvalidSymbol;
    if (!error)
        error = library_of(owner, &library);
    return error ? error : rt_error(DRV(cuLibraryGetGlobal, 12000)(ret_address, ret_size, library, name));
}

cudaError_t cudaGetSymbolAddress(void **devPtr, const void *symbol)
{
    CUdeviceptr address;
    size_t size;
    cudaError_t error = variable_find(symbol, &address, &size);

    if (!error)
        *devPtr = (void *)(uintptr_t)address;
    return rt_record(error);
}

cudaError_t cudaGetSymbolSize(size_t *size, const void *symbol)
{
    CUdeviceptr address;
    size_t found;
    cudaError_t error = variable_find(symbol, &address, &found);

    if (!error)
        *size = found;
    return rt_record(error);
}
