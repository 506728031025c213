/* The objects loaded in the main namespace: who owns an address, who defines a name, whose scope reaches
 * whom. Owns nothing beyond one query; any thread. A query runs under the loader's own lock (that of
 * dl_iterate_phdr), so nothing is unloaded meanwhile; it must not call anything but this file and
 * route_elf. Allocates pages, never from the heap.
 */
#ifndef NXM_OBJECTS_H
#define NXM_OBJECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "route_elf.h"

struct nxm_object {
    struct nxm_elf elf;     /* symbols NULL: nothing to read in it */
    const char *name;       /* as the loader knows it; "" for the program */
    const void *identity;   /* the loader's link map: the object's for as long as it stays loaded */
    uintptr_t start, end;   /* its span of addresses */
};

struct nxm_objects {
    const struct nxm_object *list; /* in load order: the program first */
    size_t count;
    uint8_t *marks; /* scratch of one byte each, zero */
};

#define NXM_NO_OBJECT ((size_t)-1)

/* Runs `query` once. false: it did not run (no memory, or the loader would not say). */
bool nxm_objects_query(void (*query)(void *argument, const struct nxm_objects *objects), void *argument);

/* For use inside a query; each answers NXM_NO_OBJECT for none. The shim is never a definer. */
size_t nxm_objects_owner(const struct nxm_objects *objects, const void *address);
size_t nxm_objects_definer(const struct nxm_objects *objects, const char *name, size_t from); /* at or after `from` */
size_t nxm_objects_named(const struct nxm_objects *objects, const char *library, size_t from);
size_t nxm_objects_needed_definer(const struct nxm_objects *objects, size_t root, const char *name, size_t from);

/* The first object that can stand behind one of our exports: the one after the shim when it was preloaded
 * (what is before it wraps us, and must not be called back), any object when it was opened late. */
size_t nxm_objects_behind_shim(const struct nxm_objects *objects);

/* Whether some object loaded both `from` and `to` as (transitive) needs: then a lookup from `from` sees `to`
 * whatever flags they were opened with. */
bool nxm_objects_reach(const struct nxm_objects *objects, size_t from, size_t to);

/* Whether `object` answers to that library name: its soname, else its file name. */
bool nxm_object_is(const struct nxm_object *object, const char *library);

/* The shim's own address range. */
bool nxm_object_is_shim(const struct nxm_object *object);

#endif
