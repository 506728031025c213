/* Stand-ins for the driver hooks, so that the routes can be tested alone: each counts its call and jumps to
 * the real function. Exported as nxmem_test_*, the one family of names that the shim may add. */
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "core/mem.h"
#include "interpose/hooks.h"
#include "interpose/label.h"
#include "interpose/observe.h"
#include "interpose/real.h"

#define EXPORT __attribute__((visibility("default")))

static unsigned hooked[NXM_API_COUNT];   /* calls of each driver hook */
static unsigned labelled[NXM_API_COUNT]; /* the name each call was recorded under */
static unsigned observed;
static struct { unsigned api, class_; uint64_t bytes, address; } last_observed;

static unsigned api_of(const char *name)
{
    for (unsigned api = 1; api < NXM_API_COUNT; ++api)
        if (!strcmp(nxm_api_names[api], name)) return api;
    return 0;
}

EXPORT unsigned nxmem_test_hooked(const char *name);
EXPORT unsigned nxmem_test_hooked(const char *name) { return __atomic_load_n(&hooked[api_of(name)], __ATOMIC_RELAXED); }
EXPORT unsigned nxmem_test_labelled(const char *name);
EXPORT unsigned nxmem_test_labelled(const char *name)
{
    return __atomic_load_n(&labelled[api_of(name)], __ATOMIC_RELAXED);
}
EXPORT unsigned nxmem_test_observed(uint64_t *ret_bytes, const char **ret_api);
EXPORT unsigned nxmem_test_observed(uint64_t *ret_bytes, const char **ret_api)
{
    *ret_bytes = last_observed.bytes;
    *ret_api = nxm_api_names[last_observed.api];
    return observed;
}
/* Whether `address` is our hook of that name, as the shim itself knows it. */
#define DRIVER(symbol, like, class_) [NXM_API_##symbol] = (void *)hook_##symbol,
#define RUNTIME(symbol, like, class_) [NXM_API_##symbol] = (void *)hook_##symbol,
static void *const hooks[NXM_API_COUNT] = {
#include "interpose/cuda_api.def"
};
EXPORT void *nxmem_test_hook(const char *name);
EXPORT void *nxmem_test_hook(const char *name) { return hooks[api_of(name)]; }
EXPORT const char *nxmem_test_row(unsigned api);
EXPORT const char *nxmem_test_row(unsigned api) { return api && api < NXM_API_COUNT ? nxm_api_names[api] : NULL; }

void nxm_observe_runtime(enum nxm_api api, uint64_t address, uint64_t bytes, enum nxm_class class_)
{
    last_observed.api = api;
    last_observed.address = address;
    last_observed.bytes = bytes;
    last_observed.class_ = class_;
    ++observed;
}

void nxm_observe_runtime_free(uint64_t address)
{
    last_observed.address = address;
    last_observed.bytes = 0;
    ++observed;
}

__attribute__((weak)) void *nxm_mem_map(size_t bytes)
{
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return pages == MAP_FAILED ? NULL : pages;
}

__attribute__((weak)) void nxm_mem_unmap(void *pages, size_t bytes)
{
    if (pages) munmap(pages, bytes);
}

void *nxm_fake_enter(unsigned api);
void *nxm_fake_enter(unsigned api)
{
    void *real = NULL;
    if (nxm_real_ready()) memcpy(&real, (const char *)&nxm_real + (api - 1) * sizeof real, sizeof real);
    __atomic_fetch_add(&hooked[api], 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&labelled[nxm_label_take((enum nxm_api)api, 0)], 1, __ATOMIC_RELAXED);
    return real;
}

/* Every hook in a few instructions: the arguments are kept whatever they are. */
static __attribute__((used)) void numbers(void)
{
#define DRIVER(symbol, like, class_) __asm__(".set nxm_fake_number_" #symbol ", %c0" ::"i"(NXM_API_##symbol));
#include "interpose/cuda_api.def"
}

#if defined(__x86_64__)
#define DRIVER(symbol, like, class_)                                                                               \
    __asm__(".text\n.weak " #symbol "\n.type " #symbol ", @function\n" #symbol ":\n"                              \
            "push %rdi\npush %rsi\npush %rdx\npush %rcx\npush %r8\npush %r9\nsub $8, %rsp\n"                        \
            "mov $nxm_fake_number_" #symbol ", %edi\ncall nxm_fake_enter\n"                                        \
            "add $8, %rsp\npop %r9\npop %r8\npop %rcx\npop %rdx\npop %rsi\npop %rdi\n"                              \
            "test %rax, %rax\njz 1f\njmp *%rax\n1: mov $500, %eax\nret\n.size " #symbol ", . - " #symbol "\n");
#elif defined(__aarch64__)
#define DRIVER(symbol, like, class_)                                                                               \
    __asm__(".text\n.weak " #symbol "\n.type " #symbol ", %function\n" #symbol ":\n"                              \
            "stp x29, x30, [sp, #-80]!\nstp x0, x1, [sp, #16]\nstp x2, x3, [sp, #32]\n"                          \
            "stp x4, x5, [sp, #48]\nstp x6, x7, [sp, #64]\n"                                                     \
            "ldr w0, =nxm_fake_number_" #symbol "\nbl nxm_fake_enter\nmov x16, x0\n"                             \
            "ldp x0, x1, [sp, #16]\nldp x2, x3, [sp, #32]\nldp x4, x5, [sp, #48]\nldp x6, x7, [sp, #64]\n"       \
            "ldp x29, x30, [sp], #80\ncbz x16, 1f\nbr x16\n1: mov w0, #500\nret\n.ltorg\n"                      \
            ".size " #symbol ", . - " #symbol "\n");
#endif
#include "interpose/cuda_api.def" /* weak: the routing hooks are the shim's own */

/* No plugin here: nobody's call is one's own. */
bool nxm_is_plugins_call(const void *caller)
{
    (void)caller;
    return false;
}
