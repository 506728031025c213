#include "route_libc.h"

#include <dlfcn.h>

#include "route_elf.h"

void *(*nxm_next_dlsym)(void *handle, const char *name);
void *(*nxm_next_dlvsym)(void *handle, const char *name, const char *version);
void *(*nxm_next_dlopen)(const char *file, int flags);
void *(*nxm_next_dlmopen)(long space, const char *file, int flags);
const void *nxm_route_startup_end;
static const struct link_map *definer_of_dlsym; /* libc, or its loader */

/* The head of the loader's list, in the C library's own words (glibc's, musl's). */
extern struct r_debug nxm_glibc_debug __asm__("_r_debug") __attribute__((weak));
extern struct r_debug *const nxm_musl_debug __asm__("_dl_debug_addr") __attribute__((weak));

struct link_map *nxm_route_first_object(void)
{
    if (&nxm_glibc_debug) return nxm_glibc_debug.r_map;
    if (&nxm_musl_debug) return nxm_musl_debug->r_map;
    return NULL;
}

static struct link_map *own_object(void)
{
    struct link_map *map = nxm_route_first_object();
    while (map && map->l_ld != nxm_route_own_dynamic) map = map->l_next;
    return map;
}

static void *define_between(struct link_map *from, const struct link_map *to, const char *name,
                            struct link_map **ret_definer)
{
    for (struct link_map *map = from; map && map != to; map = map->l_next) {
        struct nxm_elf elf;
        void *address = nxm_elf_open(map->l_addr, map->l_ld, &elf) ? nxm_elf_define(&elf, name) : NULL;
        if (address) {
            *ret_definer = map;
            return address;
        }
    }
    return NULL;
}

/* The next definition behind `own`; when it was opened late and nothing is behind it, the first of all. */
static void *define_next(struct link_map *own, const char *name, struct link_map **ret_definer)
{
    void *address = define_between(own->l_next, NULL, name, ret_definer);
    return address ? address : define_between(nxm_route_first_object(), own, name, ret_definer);
}

static bool is_before(const struct link_map *first, const struct link_map *second)
{
    while (first && first != second) first = first->l_next;
    return first != NULL;
}

void nxm_route_resolve(void)
{
    struct link_map *own = own_object(), *definer = NULL;
    if (!own) return;
    void *found_dlvsym = define_next(own, "dlvsym", &definer);
    void *found_dlopen = define_next(own, "dlopen", &definer);
    void *found_dlmopen = define_next(own, "dlmopen", &definer);
    void *found_dlsym = define_next(own, "dlsym", &definer);
    if (!found_dlsym) return;
    if (is_before(own, definer)) {
        const struct link_map *last = own;
        while (last->l_next) last = last->l_next;
        if (!nxm_route_startup_end) nxm_route_startup_end = last;
    }
    definer_of_dlsym = definer;
    __atomic_store_n((void **)&nxm_next_dlvsym, found_dlvsym, __ATOMIC_RELEASE);
    __atomic_store_n((void **)&nxm_next_dlopen, found_dlopen, __ATOMIC_RELEASE);
    __atomic_store_n((void **)&nxm_next_dlmopen, found_dlmopen, __ATOMIC_RELEASE);
    __atomic_store_n((void **)&nxm_next_dlsym, found_dlsym, __ATOMIC_RELEASE);
}

void *nxm_route_libc_function(const char *name)
{
    struct nxm_elf elf;
    if (!nxm_next_dlsym) nxm_route_resolve();
    if (!definer_of_dlsym || !nxm_elf_open(definer_of_dlsym->l_addr, definer_of_dlsym->l_ld, &elf)) return NULL;
    return nxm_elf_define(&elf, name);
}

void *nxm_route_pin(const char *name)
{
    if (!nxm_next_dlopen) return NULL;
    return nxm_next_dlopen(*name ? name : NULL, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

void *nxm_route_barren_handle(void)
{
    static void *handle; /* every thread finds the same */
    void *known = __atomic_load_n(&handle, __ATOMIC_ACQUIRE);
    if (!known && definer_of_dlsym) {
        known = nxm_route_pin(definer_of_dlsym->l_name);
        __atomic_store_n(&handle, known, __ATOMIC_RELEASE);
    }
    return known;
}

__attribute__((constructor)) static void resolve_at_start(void)
{
    if (!nxm_next_dlsym) nxm_route_resolve();
}
