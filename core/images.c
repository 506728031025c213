#include "images.h"

#include <elf.h>
#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>

#include "stack_span.h"

#define BUCKETS 512
#define HINTS 1024
#define HINT_SHIFT 14 /* bytes of code that share a hint */
#define NAMES_BYTES (256u << 10)
#define PAGE 4096u
#define PERMANENT_MAX 512

static struct nxm_known_image records[NXM_IMAGES_MAX]; /* number n at n - 1 */
static _Atomic uint32_t taken;                         /* records, given out or to be */
static _Atomic uint32_t buckets[BUCKETS];              /* by start: number of the newest record, 0 none */
static _Atomic uint32_t hints[HINTS];                  /* by address: where it is worth looking first */
static char names[NAMES_BYTES];
static _Atomic uint32_t names_used;
static _Atomic(const struct link_map *) permanent_maps[PERMANENT_MAX]; /* what the program was started with */
static _Atomic uint32_t permanent_count;

/* --- reading an image -------------------------------------------------------------------------------------- */

struct segments {
    const ElfW(Phdr) *first;
    unsigned count;
    const uint8_t *page; /* the image's first, with its ELF header; NULL: it was not found */
};

static bool segments_behind(uint64_t page, struct segments *ret_segments)
{
    const ElfW(Ehdr) *header = (const void *)(uintptr_t)page;

    if (!nxm_memory_is_readable(page) || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        header->e_phentsize != sizeof(ElfW(Phdr)) || header->e_phoff % 8 != 0 || header->e_phnum == 0)
        return false;
    uint64_t first = page + header->e_phoff, bytes = header->e_phnum * sizeof(ElfW(Phdr));
    if (bytes > PAGE || !nxm_memory_is_readable(first) || !nxm_memory_is_readable(first + bytes - 4))
        return false;
    *ret_segments = (struct segments){ (const void *)(uintptr_t)first, header->e_phnum, (const void *)header };
    return true;
}

/* The kernel says where the program's are. */
static bool segments_of_program(const struct nxm_image *image, struct segments *ret_segments)
{
    const ElfW(Phdr) *first = (const void *)getauxval(AT_PHDR);
    unsigned count = (unsigned)getauxval(AT_PHNUM);

    for (unsigned i = 0; first != NULL && i < count; i++) {
        if (first[i].p_type == PT_PHDR && image->base + first[i].p_vaddr == (uintptr_t)first) {
            *ret_segments = (struct segments){ first, count, NULL };
            return true;
        }
    }
    return false;
}

/* An image with gaps is several to the loader, and its header where the file's first byte lies. It is looked for, not believed. */
static bool find_segments(const struct nxm_image *image, struct segments *ret_segments)
{
    return segments_behind(image->start, ret_segments) ||
           (image->base != 0 && image->base % PAGE == 0 && segments_behind(image->base, ret_segments)) ||
           segments_of_program(image, ret_segments);
}

static void find_tables(const struct nxm_image *image, const struct segments *segments, struct nxm_known_image *record)
{
    uint64_t header = 0;

    for (unsigned i = 0; i < segments->count; i++) {
        if (segments->first[i].p_type == PT_GNU_EH_FRAME)
            header = image->base + segments->first[i].p_vaddr;
    }
    if (header == 0)
        return;
    record->tables_strange = true;
    for (unsigned i = 0; i < segments->count; i++) {
        const ElfW(Phdr) *segment = &segments->first[i];
        uint64_t start = image->base + segment->p_vaddr, end = start + segment->p_filesz;

        if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_R) || header < start || header >= end ||
            !nxm_memory_is_readable(start) || !nxm_memory_is_readable(end - 1))
            continue;
        record->tables = (struct nxm_eh_frame){ (const uint8_t *)(uintptr_t)start, (const uint8_t *)(uintptr_t)end,
                                                (const uint8_t *)(uintptr_t)header };
        record->tables_strange = false;
    }
}

/* The build id, if it is in the first page (linkers put it there), else where the section headers are in the file. */
static const uint8_t *mark_of(const struct nxm_image *image, const struct segments *segments)
{
    static const uint8_t build_id[] = { 4, 0, 0, 0, 20, 0, 0, 0, 3, 0, 0, 0, 'G', 'N', 'U', 0 };
    const uint8_t *page = segments->page;

    for (unsigned i = 0; page != NULL && i < segments->count; i++) {
        uint64_t at = image->base + segments->first[i].p_vaddr - (uintptr_t)page, bytes = segments->first[i].p_filesz;

        if (segments->first[i].p_type != PT_NOTE || at >= PAGE || bytes > PAGE - at)
            continue;
        for (uint64_t note = at; note + sizeof build_id + 8 <= at + bytes; note += 4) {
            if (memcmp(page + note, build_id, sizeof build_id) == 0)
                return page + note + sizeof build_id;
        }
    }
    return page == NULL ? NULL : page + offsetof(ElfW(Ehdr), e_shoff);
}

static uint64_t mark_at(const uint8_t *at)
{
    uint64_t mark = 0;

    if (at != NULL)
        memcpy(&mark, at, sizeof mark);
    return mark;
}

static const char *keep_name(const char *path)
{
    uint32_t bytes = (uint32_t)strlen(path) + 1, at = atomic_load(&names_used);

    do {
        if (bytes > NAMES_BYTES - at)
            return NULL;
    } while (!atomic_compare_exchange_weak(&names_used, &at, at + bytes));
    return memcpy(names + at, path, bytes);
}

/* --- records ------------------------------------------------------------------------------------------------ */

static struct nxm_known_image *record_of(uint32_t number)
{
    return number == 0 ? NULL : &records[number - 1];
}

const struct nxm_known_image *nxm_images_numbered(uint64_t number)
{
    return number == 0 || number > NXM_IMAGES_MAX ? NULL : record_of((uint32_t)number);
}

static _Atomic uint32_t *bucket_of(uint64_t start)
{
    return &buckets[(start >> 12) * UINT64_C(0x9E3779B97F4A7C15) >> 55];
}

static _Atomic uint32_t *hint_of(uint64_t address)
{
    return &hints[(address >> HINT_SHIFT) % HINTS];
}

/* What was there may have been closed and another one, even another build under the same name, mapped at its place. */
static bool is_still(const struct nxm_known_image *known, const struct nxm_image *image)
{
    return known->image.start == image->start && known->image.end == image->end && known->image.base == image->base &&
           mark_at(known->mark_at) == known->mark && strcmp(known->image.path, image->path) == 0;
}

static struct nxm_known_image *look_up(uint32_t first, uint32_t beyond, const struct nxm_image *image)
{
    for (uint32_t number = first; number != beyond; number = record_of(number)->next) {
        if (is_still(record_of(number), image))
            return record_of(number);
    }
    return NULL;
}

/* They are never closed, so a link map's address says all. */
static bool is_permanent(const struct link_map *map)
{
    uint32_t count = atomic_load_explicit(&permanent_count, memory_order_acquire);

    for (uint32_t i = 0; i < count; i++) {
        if (atomic_load_explicit(&permanent_maps[i], memory_order_relaxed) == map)
            return true;
    }
    return false;
}

static bool fill(struct nxm_known_image *record, const struct nxm_image *image)
{
    struct segments segments;

    record->image = *image;
    record->image.path = keep_name(image->path);
    record->image.map = NULL;
    record->permanent = is_permanent(image->map);
    record->own = (uintptr_t)&nxm_images_at >= image->start && (uintptr_t)&nxm_images_at < image->end;
    record->tables_strange = true;
    if (record->image.path == NULL)
        return false;
    if (find_segments(image, &segments)) {
        record->tables_strange = false;
        find_tables(image, &segments, record);
        record->mark_at = mark_of(image, &segments);
        record->mark = mark_at(record->mark_at);
    }
    return true;
}

/* Two threads may do this at once: one record is found by all. */
static struct nxm_known_image *record_for(const struct nxm_image *image)
{
    _Atomic uint32_t *bucket = bucket_of(image->start);
    uint32_t first = atomic_load_explicit(bucket, memory_order_acquire), looked_at = 0;
    struct nxm_known_image *known = look_up(first, 0, image), *made = NULL;

    while (known == NULL) {
        if (made == NULL) {
            uint32_t at = atomic_load(&taken);

            do {
                if (at >= NXM_IMAGES_MAX)
                    return NULL;
            } while (!atomic_compare_exchange_weak(&taken, &at, at + 1));
            made = &records[at];
            made->number = at + 1;
            if (!fill(made, image))
                return NULL;
        }
        made->next = looked_at = first;
        if (atomic_compare_exchange_strong(bucket, &first, made->number))
            return made;
        known = look_up(first, looked_at, image);
    }
    return known;
}

/* --- addresses ---------------------------------------------------------------------------------------------- */

static bool contains(const struct nxm_known_image *known, uint64_t address)
{
    return address - known->image.start < known->image.end - known->image.start;
}

static const struct nxm_known_image *remember(const struct nxm_known_image *known, struct nxm_images_seen *seen)
{
    if (seen->count < sizeof seen->seen / sizeof seen->seen[0])
        seen->seen[seen->count++] = known;
    return known;
}

const struct nxm_known_image *nxm_images_at(uint64_t address, struct nxm_images_seen *seen)
{
    _Atomic uint32_t *hint = hint_of(address);
    const struct nxm_known_image *known = record_of(atomic_load_explicit(hint, memory_order_acquire));
    struct nxm_image image;

    if (known != NULL && contains(known, address) && known->permanent)
        return known;
    for (unsigned i = 0; i < seen->count; i++) {
        if (contains(seen->seen[i], address))
            return seen->seen[i];
    }
    if (!nxm_image_at(address, &image))
        return NULL;
    if (known != NULL && is_still(known, &image))
        return remember(known, seen);
    known = record_for(&image);
    if (known == NULL)
        return NULL;
    atomic_store_explicit(hint, known->number, memory_order_release);
    return remember(known, seen);
}

/* --- images that are there to stay -------------------------------------------------------------------------- */

/* What the program was started with: itself and whatever it needs, in turn. The loader never closes those. */
struct permanent {
    const struct link_map *maps[PERMANENT_MAX];
    unsigned count;
    const struct link_map *first; /* of the loader's list, which starts with them */
};

static void add(struct permanent *permanent, const struct link_map *map)
{
    for (unsigned i = 0; i < permanent->count; i++) {
        if (permanent->maps[i] == map)
            return;
    }
    if (permanent->count < PERMANENT_MAX)
        permanent->maps[permanent->count++] = map;
}

static const char *strings_of(const struct link_map *map)
{
    for (const ElfW(Dyn) *entry = map->l_ld; entry != NULL && entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_STRTAB) /* not relocated in place where the section is read-only */
            return (const char *)(uintptr_t)(entry->d_un.d_ptr < map->l_addr ? entry->d_un.d_ptr + map->l_addr : entry->d_un.d_ptr);
    }
    return NULL;
}

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

static bool is_called(const struct link_map *map, const char *name)
{
    const char *strings = strings_of(map);

    if (map->l_name != NULL && map->l_name[0] != '\0' && strcmp(file_name(map->l_name), file_name(name)) == 0)
        return true;
    for (const ElfW(Dyn) *entry = map->l_ld; strings != NULL && entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_SONAME)
            return strcmp(strings + entry->d_un.d_val, name) == 0;
    }
    return false;
}

static void add_needed(struct permanent *permanent, const struct link_map *by)
{
    const char *strings = strings_of(by);

    for (const ElfW(Dyn) *entry = by->l_ld; strings != NULL && entry->d_tag != DT_NULL; entry++) {
        const struct link_map *map = entry->d_tag == DT_NEEDED ? permanent->first : NULL;

        while (map != NULL && !is_called(map, strings + entry->d_un.d_val))
            map = map->l_next;
        if (map != NULL)
            add(permanent, map);
    }
}

/* Called under the loader's lock: nothing is opened or closed meanwhile. */
static int find_permanent(struct dl_phdr_info *info, size_t size, void *closure)
{
    struct permanent *permanent = closure;

    (void)info;
    (void)size;
    while (permanent->first->l_prev != NULL)
        permanent->first = permanent->first->l_prev;
    add(permanent, permanent->first);
    for (unsigned i = 0; i < permanent->count; i++)
        add_needed(permanent, permanent->maps[i]);
    return 1;
}

/* Threads that come here together find the same, and write the same. */
void nxm_images_prepare(void)
{
    struct permanent permanent = { .count = 0 };
    struct nxm_image image;

    if (!nxm_image_at((uintptr_t)&nxm_images_at, &image) || atomic_load(&permanent_count) != 0)
        return;
    permanent.first = image.map;
    dl_iterate_phdr(find_permanent, &permanent);
    for (unsigned i = 0; i < permanent.count; i++)
        atomic_store_explicit(&permanent_maps[i], permanent.maps[i], memory_order_relaxed);
    atomic_store_explicit(&permanent_count, permanent.count, memory_order_release);
}
