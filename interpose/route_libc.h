/* The C library's functions behind our dlsym, dlvsym and dlopen: the next definition after the shim in load
 * order, so that another preloaded tool keeps its place in the chain. Owns the pointers below, written once
 * (any thread may write: always the same values); no locks.
 *
 * Found by reading the loader's public list of objects, not by dlvsym: we hook that too, and the name of its
 * version differs between C libraries and machines. The constructor does it while the list cannot
 * change under us (start-up, or inside the dlopen that loads us); an earlier caller, a sanitizer that starts
 * before our constructor, comes while there is one thread.
 */
#ifndef NXM_ROUTE_LIBC_H
#define NXM_ROUTE_LIBC_H

#include <link.h>
#include <stdbool.h>

/* Read by the stubs. NULL until resolved; NULL for ever where the process has no such function. */
extern void *(*nxm_next_dlsym)(void *handle, const char *name);
extern void *(*nxm_next_dlvsym)(void *handle, const char *name, const char *version);
extern void *(*nxm_next_dlopen)(const char *file, int flags);
extern void *(*nxm_next_dlmopen)(long space, const char *file, int flags);

/* A library whose scope holds none of our names: asking there makes the loader itself say "undefined symbol".
 * NULL: none. Calls dlopen, since a library that was only needed has no scope of its own until then. */
void *nxm_route_barren_handle(void);

/* The function of that name beside dlsym; NULL: none there. Leaves dlerror alone. */
void *nxm_route_libc_function(const char *name);

/* Pins the object that the loader knows as `name` ("" for the program): a handle that may be asked, or NULL. */
void *nxm_route_pin(const char *name);

/* The last object of start-up if the shim was preloaded, NULL if it was opened late. Only ever compared. */
extern const void *nxm_route_startup_end;

extern ElfW(Dyn) nxm_route_own_dynamic[] __asm__("_DYNAMIC") __attribute__((visibility("hidden")));

/* One turn of a wait for another thread that is about to be done. */
static inline void nxm_spin(void)
{
#if defined(__x86_64__)
    __asm__ volatile("pause");
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

void nxm_route_resolve(void); /* idempotent */
struct link_map *nxm_route_first_object(void);

#endif
