#include "module.h"

#include "context.h"
#include "memory.h"
#include "object.h"
#include "state.h"

#include <stdlib.h>
#include <string.h>

enum { GLOBAL_BYTES = 64 << 10 }; /* every device variable is as large: no code is read that would tell */

/* A function, a kernel or a variable, by name; it goes with its module or library. */
struct named {
    struct sim_object object;
    struct named *next;
    struct image *image;
    struct sim_block *variable;
    char name[];
};

/* A module belongs to a context; a library to the process, loaded into each context when it is used. */
struct image {
    struct sim_object object;
    struct sim_context *context; /* NULL: a library */
    struct image *module;        /* a library as the module of the context that asked */
    struct named *members;
};

/* --- members --------------------------------------------------------------------------------------------- */

static struct named *member(struct image *i, enum sim_kind kind, const char *name)
{
    for (struct named *n = i->members; n; n = n->next)
        if (n->object.kind == kind && strcmp(n->name, name) == 0) return n;
    size_t length = strlen(name);
    struct named *n = sim_object_new(kind, sizeof *n + length + 1, NULL);
    if (!n) return NULL;
    memcpy(n->name, name, length + 1);
    n->image = i;
    n->next = i->members;
    i->members = n;
    return n;
}

static CUresult find(const void *image, enum sim_kind image_kind, enum sim_kind kind, const char *name, void *ret)
{
    if (!ret || !name) return CUDA_ERROR_INVALID_VALUE;
    CUresult result = CUDA_SUCCESS;
    sim_lock();
    struct image *i = sim_object_find(image, image_kind);
    if (!i) result = CUDA_ERROR_INVALID_HANDLE;
    else if (!*name) result = CUDA_ERROR_NOT_FOUND;
    else if (!(*(void **)ret = member(i, kind, name))) result = CUDA_ERROR_OUT_OF_MEMORY;
    sim_unlock();
    return result;
}

static CUresult global(const void *image, enum sim_kind image_kind, const char *name, CUdeviceptr *dptr, size_t *bytes,
                       enum sim_fn fn)
{
    struct sim_context *c;
    if (!name || !*name) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct image *i = sim_object_find(image, image_kind);
    CUresult result = i ? sim_context_current(&c) : CUDA_ERROR_INVALID_HANDLE;
    struct named *n = result == CUDA_SUCCESS ? member(i, SIM_USER_OBJECT, name) : NULL;
    if (result == CUDA_SUCCESS && !n) result = CUDA_ERROR_OUT_OF_MEMORY;
    if (result == CUDA_SUCCESS && (!n->variable || !n->variable->mapped))
        result = sim_memory_new(c->device, sim_context_owner(c), SIM_BLOCK_MODULE, GLOBAL_BYTES, fn, &n->variable);
    if (result == CUDA_SUCCESS) {
        if (dptr) *dptr = n->variable->range.start;
        if (bytes) *bytes = GLOBAL_BYTES;
    }
    sim_unlock();
    return result;
}

/* --- images ---------------------------------------------------------------------------------------------- */

static void close_image(struct image *i, enum sim_fn fn)
{
    if (i->module) close_image(i->module, fn);
    if (i->context) sim_context_refund(i->context, sim_settings.module_memory);
    while (i->members) {
        struct named *n = i->members;
        i->members = n->next;
        if (n->variable) sim_memory_release(n->variable, fn);
        sim_object_close(&n->object);
    }
    sim_object_close(&i->object);
}

/* A module's code takes memory of its context's device; a library takes none before it is in a context. */
static struct image *image_new(enum sim_kind kind, struct sim_context *c)
{
    if (c && !sim_context_charge(c, sim_settings.module_memory)) return NULL;
    struct image *i = sim_object_new(kind, sizeof *i, NULL);
    if (i) i->context = c;
    else if (c) sim_context_refund(c, sim_settings.module_memory);
    return i;
}

static CUresult load(enum sim_kind kind, const void *data, void *ret)
{
    struct sim_context *c = NULL;
    if (!data || !ret) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult result = kind == SIM_MODULE ? sim_context_current(&c) : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS) {
        struct image *i = image_new(kind, c ? sim_context_owner(c) : NULL);
        if (i) *(void **)ret = i;
        else result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    sim_unlock();
    return result;
}

static CUresult unload(const void *handle, enum sim_kind kind, enum sim_fn fn)
{
    sim_lock();
    struct image *i = sim_object_find(handle, kind);
    if (i) close_image(i, fn);
    sim_unlock();
    return i ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

struct search {
    struct sim_context *context;
    struct image *found;
};

static void search_module(struct sim_object *o, void *arg)
{
    struct search *s = arg;
    if (((struct image *)o)->context == s->context) s->found = (struct image *)o;
}

static void detach_library(struct sim_object *o, void *module)
{
    struct image *library = (struct image *)o;
    if (library->module == module) library->module = NULL;
}

static void forget_variables(struct sim_object *o, void *context)
{
    struct image *i = (struct image *)o;
    for (struct named *n = i->members; n; n = n->next)
        if (n->variable && n->variable->context == context) n->variable = NULL;
}

/* The context's variables are released with its memory, before this. */
void sim_module_close_context(struct sim_context *c)
{
    struct search s = { c, NULL };
    sim_object_each(SIM_MODULE, search_module, &s);
    while (s.found) {
        sim_object_each(SIM_LIBRARY, detach_library, s.found);
        close_image(s.found, SIM_FN_COUNT);
        s.found = NULL;
        sim_object_each(SIM_MODULE, search_module, &s);
    }
}

void sim_module_forget_context(struct sim_context *c)
{
    sim_object_each(SIM_MODULE, forget_variables, c);
    sim_object_each(SIM_LIBRARY, forget_variables, c);
}

/* --- entry points: modules ------------------------------------------------------------------------------- */

CUresult cuModuleLoad(CUmodule *module, const char *fname)
{
    SIM_ENTER(cuModuleLoad);
    return load(SIM_MODULE, fname, module);
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    SIM_ENTER(cuModuleLoadData);
    return load(SIM_MODULE, image, module);
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count, CUjit_option *options, void **values)
{
    SIM_ENTER(cuModuleLoadDataEx);
    (void)count, (void)options, (void)values;
    return load(SIM_MODULE, image, module);
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *fat)
{
    SIM_ENTER(cuModuleLoadFatBinary);
    return load(SIM_MODULE, fat, module);
}

CUresult cuModuleUnload(CUmodule module)
{
    SIM_ENTER(cuModuleUnload);
    return unload(module, SIM_MODULE, SIM_FN_cuModuleUnload);
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    SIM_ENTER(cuModuleGetFunction);
    return find(module, SIM_MODULE, SIM_FUNCTION, name, function);
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule module, const char *name)
{
    SIM_ENTER(cuModuleGetGlobal_v2);
    return global(module, SIM_MODULE, name, dptr, bytes, SIM_FN_cuModuleGetGlobal_v2);
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
    SIM_ENTER(cuModuleGetLoadingMode);
    if (!mode) return CUDA_ERROR_INVALID_VALUE;
    *mode = CU_MODULE_LAZY_LOADING;
    return CUDA_SUCCESS;
}

/* --- entry points: libraries and kernels ----------------------------------------------------------------- */

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jit, void **jit_values, unsigned jits,
                           CUlibraryOption *options, void **values, unsigned count)
{
    SIM_ENTER(cuLibraryLoadData);
    (void)jit, (void)jit_values, (void)jits, (void)options, (void)values, (void)count;
    return load(SIM_LIBRARY, code, library);
}

CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *file, CUjit_option *jit, void **jit_values,
                               unsigned jits, CUlibraryOption *options, void **values, unsigned count)
{
    SIM_ENTER(cuLibraryLoadFromFile);
    (void)jit, (void)jit_values, (void)jits, (void)options, (void)values, (void)count;
    return load(SIM_LIBRARY, file, library);
}

CUresult cuLibraryUnload(CUlibrary library)
{
    SIM_ENTER(cuLibraryUnload);
    return unload(library, SIM_LIBRARY, SIM_FN_cuLibraryUnload);
}

CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
    SIM_ENTER(cuLibraryGetKernel);
    return find(library, SIM_LIBRARY, SIM_KERNEL, name, kernel);
}

CUresult cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
    SIM_ENTER(cuLibraryGetGlobal);
    return global(library, SIM_LIBRARY, name, dptr, bytes, SIM_FN_cuLibraryGetGlobal);
}

CUresult cuLibraryGetManaged(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
    SIM_ENTER(cuLibraryGetManaged);
    return global(library, SIM_LIBRARY, name, dptr, bytes, SIM_FN_cuLibraryGetManaged);
}

CUresult cuLibraryGetModule(CUmodule *module, CUlibrary library)
{
    SIM_ENTER(cuLibraryGetModule);
    struct sim_context *c;
    if (!module) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct image *l = sim_object_find(library, SIM_LIBRARY);
    CUresult result = l ? sim_context_current(&c) : CUDA_ERROR_INVALID_HANDLE;
    if (result == CUDA_SUCCESS && !l->module) l->module = image_new(SIM_MODULE, c);
    if (result == CUDA_SUCCESS) *module = (CUmodule)l->module;
    if (result == CUDA_SUCCESS && !l->module) result = CUDA_ERROR_OUT_OF_MEMORY;
    sim_unlock();
    return result;
}

CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel)
{
    SIM_ENTER(cuKernelGetFunction);
    CUresult result = CUDA_ERROR_INVALID_HANDLE;
    if (!function) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct named *k = sim_object_find(kernel, SIM_KERNEL);
    if (k) {
        *function = (CUfunction)member(k->image, SIM_FUNCTION, k->name);
        result = *function ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    sim_unlock();
    return result;
}

CUresult cuKernelGetLibrary(CUlibrary *library, CUkernel kernel)
{
    SIM_ENTER(cuKernelGetLibrary);
    if (!library) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct named *k = sim_object_find(kernel, SIM_KERNEL);
    if (k) *library = (CUlibrary)k->image;
    sim_unlock();
    return k ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult name_of(const char **name, const void *handle, enum sim_kind kind)
{
    if (!name) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct named *n = sim_object_find(handle, kind);
    if (n) *name = n->name;
    sim_unlock();
    return n ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuKernelGetName(const char **name, CUkernel kernel)
{
    SIM_ENTER(cuKernelGetName);
    return name_of(name, kernel, SIM_KERNEL);
}

CUresult cuFuncGetName(const char **name, CUfunction function)
{
    SIM_ENTER(cuFuncGetName);
    return name_of(name, function, SIM_FUNCTION);
}

CUresult cuFuncGetModule(CUmodule *module, CUfunction function)
{
    SIM_ENTER(cuFuncGetModule);
    if (!module) return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct named *f = sim_object_find(function, SIM_FUNCTION);
    if (f) *module = (CUmodule)f->image;
    sim_unlock();
    return f ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
