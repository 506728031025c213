#include "objects.h"

#include <string.h>

#include "core/mem.h"
#include "route_libc.h"

bool nxm_object_is_shim(const struct nxm_object *object)
{
    return object->elf.dynamic == nxm_route_own_dynamic;
}

/* --- the snapshot ---------------------------------------------------------------------------------- */

struct snapshot {
    void (*query)(void *argument, const struct nxm_objects *objects);
    void *argument;
    struct link_map *next; /* dl_iterate_phdr walks the same list as the loader's public one */
    struct nxm_object *list;
    size_t count, filled;
    size_t bytes;
    bool done;
};

/* Where there is no memory, one snapshot at a time fits here. */
#define SPARE_BYTES (48 * 1024)
static _Alignas(16) unsigned char spare[SPARE_BYTES];
static bool spare_taken;

static void *take_memory(size_t bytes)
{
    void *pages = bytes ? nxm_mem_map(bytes) : NULL;
    if (pages || !bytes || bytes > SPARE_BYTES || __atomic_exchange_n(&spare_taken, true, __ATOMIC_ACQUIRE)) return pages;
    memset(spare, 0, bytes);
    return spare;
}

static void give_memory(void *memory, size_t bytes)
{
    if (memory == spare) __atomic_store_n(&spare_taken, false, __ATOMIC_RELEASE);
    else nxm_mem_unmap(memory, bytes);
}

static bool snapshot_start(struct snapshot *snapshot)
{
    snapshot->next = nxm_route_first_object();
    for (struct link_map *map = snapshot->next; map; map = map->l_next) ++snapshot->count;
    snapshot->bytes = snapshot->count * (sizeof(struct nxm_object) + 1);
    snapshot->list = take_memory(snapshot->bytes);
    return snapshot->list != NULL;
}

static void snapshot_add(struct snapshot *snapshot, const struct dl_phdr_info *info)
{
    struct link_map *map = snapshot->next;
    struct nxm_object *object = &snapshot->list[snapshot->filled++];
    snapshot->next = map->l_next;
    object->identity = map;
    object->name = map->l_name ? map->l_name : "";
    nxm_elf_open(map->l_addr, map->l_ld, &object->elf);
    object->elf.dynamic = map->l_ld;
    object->start = UINTPTR_MAX;
    for (unsigned i = 0; i < info->dlpi_phnum; ++i) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD) continue;
        uintptr_t start = info->dlpi_addr + segment->p_vaddr;
        if (start < object->start) object->start = start;
        if (start + segment->p_memsz > object->end) object->end = start + segment->p_memsz;
    }
}

static int visit(struct dl_phdr_info *info, size_t size, void *argument)
{
    (void)size;
    struct snapshot *snapshot = argument;
    if (!snapshot->list && !snapshot_start(snapshot)) return 1;
    if (!snapshot->next || snapshot->next->l_addr != info->dlpi_addr) return 1; /* not the list we know */
    snapshot_add(snapshot, info);
    if (snapshot->filled < snapshot->count) return 0;
    struct nxm_objects objects = {snapshot->list, snapshot->count, (uint8_t *)(snapshot->list + snapshot->count)};
    snapshot->query(snapshot->argument, &objects);
    snapshot->done = true;
    return 1;
}

bool nxm_objects_query(void (*query)(void *argument, const struct nxm_objects *objects), void *argument)
{
    struct snapshot snapshot = {.query = query, .argument = argument};
    dl_iterate_phdr(visit, &snapshot);
    give_memory(snapshot.list, snapshot.bytes);
    return snapshot.done;
}

/* --- questions ------------------------------------------------------------------------------------- */

size_t nxm_objects_owner(const struct nxm_objects *objects, const void *address)
{
    uintptr_t at = (uintptr_t)address;
    for (size_t i = 0; i < objects->count; ++i)
        if (at >= objects->list[i].start && at < objects->list[i].end) return i;
    return NXM_NO_OBJECT;
}

size_t nxm_objects_behind_shim(const struct nxm_objects *objects)
{
    if (!nxm_route_startup_end) return 0;
    size_t i = 0;
    while (i < objects->count && !nxm_object_is_shim(&objects->list[i])) ++i;
    return i + 1;
}

static bool defines(const struct nxm_object *object, const char *name)
{
    return object->elf.symbols && !nxm_object_is_shim(object) && nxm_elf_define(&object->elf, name);
}

size_t nxm_objects_definer(const struct nxm_objects *objects, const char *name, size_t from)
{
    for (size_t i = from; i < objects->count; ++i)
        if (defines(&objects->list[i], name)) return i;
    return NXM_NO_OBJECT;
}

bool nxm_object_is(const struct nxm_object *object, const char *library)
{
    if (object->elf.soname && nxm_route_equal(object->elf.soname, library)) return true;
    return nxm_route_equal(nxm_route_basename(object->name), library);
}

size_t nxm_objects_named(const struct nxm_objects *objects, const char *library, size_t from)
{
    for (size_t i = from; i < objects->count; ++i)
        if (nxm_object_is(&objects->list[i], library)) return i;
    return NXM_NO_OBJECT;
}

static bool needs(const struct nxm_objects *objects, size_t user, size_t used)
{
    const struct nxm_elf *elf = &objects->list[user].elf;
    size_t cursor = 0;
    if (!elf->symbols) return false;
    for (const char *name; (name = nxm_elf_next_needed(elf, &cursor));)
        if (nxm_object_is(&objects->list[used], nxm_route_basename(name))) return true;
    return false;
}

/* Marks, with `mark`, everything that marked objects need (or that needs them, backwards), transitively.
 * Quadratic in the objects, but only questions about our own names with a pseudo-handle come here. */
static void spread(const struct nxm_objects *objects, uint8_t mark, bool backwards)
{
    bool grew = true;
    while (grew) {
        grew = false;
        for (size_t i = 0; i < objects->count; ++i) {
            if ((objects->marks[i] & mark) == 0 || (objects->marks[i] & (mark << 1))) continue;
            objects->marks[i] |= (uint8_t)(mark << 1); /* looked at */
            for (size_t k = 0; k < objects->count; ++k)
                if (!(objects->marks[k] & mark) && (backwards ? needs(objects, k, i) : needs(objects, i, k))) {
                    objects->marks[k] |= mark;
                    grew = true;
                }
        }
    }
}

bool nxm_objects_reach(const struct nxm_objects *objects, size_t from, size_t to)
{
    enum { USER = 1, USED = 4 };
    for (size_t i = 0; i < objects->count; ++i) objects->marks[i] = 0;
    objects->marks[from] = USER;
    spread(objects, USER, true);
    for (size_t i = 0; i < objects->count; ++i)
        objects->marks[i] = objects->marks[i] & USER ? USED : 0;
    spread(objects, USED, false);
    return objects->marks[to] & USED;
}

/* Breadth first over DT_NEEDED, as the loader builds an object's own scope. */
size_t nxm_objects_needed_definer(const struct nxm_objects *objects, size_t root, const char *name, size_t from)
{
    enum { NOW = 1, NEXT = 2, DONE = 3 };
    for (size_t i = 0; i < objects->count; ++i) objects->marks[i] = 0;
    objects->marks[root] = NEXT;
    for (bool grew = true; grew;) {
        grew = false;
        for (size_t i = 0; i < objects->count; ++i)
            if (objects->marks[i] == NEXT) objects->marks[i] = NOW;
        for (size_t i = 0; i < objects->count; ++i) {
            if (objects->marks[i] != NOW) continue;
            if (i >= from && defines(&objects->list[i], name)) return i;
            objects->marks[i] = DONE;
            for (size_t k = 0; k < objects->count; ++k)
                if (!objects->marks[k] && needs(objects, i, k)) {
                    objects->marks[k] = NEXT;
                    grew = true;
                }
        }
    }
    return NXM_NO_OBJECT;
}
