#include "image.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "program.h"

#define PROGRAM_PATH_MAX 4096

/* --- which image ------------------------------------------------------------------------------------- */

/* The loader leaves the program's own path empty. Read once; two threads that come first write the same. */
static const char *program_path(void)
{
    static char path[PROGRAM_PATH_MAX];
    static atomic_int state; /* 0 unread, 1 somebody reads it, 2 there */
    int unread = 0;

    if (atomic_compare_exchange_strong(&state, &unread, 1)) {
        nxm_program_path(path, sizeof path);
        atomic_store(&state, 2);
    }
    return atomic_load(&state) == 2 ? path : "";
}

static void describe(const struct link_map *map, struct nxm_image *ret_image)
{
    ret_image->map = map;
    ret_image->base = map->l_addr;
    ret_image->path = map->l_name != NULL && map->l_name[0] != '\0' ? map->l_name : program_path();
}

/* --- an older glibc, musl: the loader's lock is taken ---------------------------------------------------- */

/* The image's first page is its ELF header. */
static uint64_t end_of(const void *start, uint64_t base)
{
    const ElfW(Ehdr) *header = start;
    const ElfW(Phdr) *segments = (const void *)((const char *)start + header->e_phoff);
    uint64_t end = 0;

    for (unsigned i = 0; i < header->e_phnum; i++) {
        if (segments[i].p_type == PT_LOAD && base + segments[i].p_vaddr + segments[i].p_memsz > end)
            end = base + segments[i].p_vaddr + segments[i].p_memsz;
    }
    return end;
}

/* musl has it not, and must still load us: then no address is in any image. */
#pragma weak dladdr1

static bool image_by_dladdr(uint64_t address, struct nxm_image *ret_image)
{
    struct link_map *map = NULL;
    Dl_info info;

    if (!dladdr1 || dladdr1((void *)(uintptr_t)address, &info, (void **)&map, RTLD_DL_LINKMAP) == 0 || map == NULL)
        return false;
    describe(map, ret_image);
    ret_image->start = (uintptr_t)info.dli_fbase;
    ret_image->end = end_of(info.dli_fbase, map->l_addr);
    return true;
}

/* --- glibc 2.35 and later: no lock ----------------------------------------------------------------------- */

/* As <dlfcn.h> has it there; what glibc may append lies in `rest`. */
struct found {
    unsigned long long flags;
    void *map_start, *map_end;
    struct link_map *map;
    void *rest[16];
};
typedef int find_object(void *address, struct found *ret_found);

/* Asked for by name, so that an older glibc still loads us. NULL: it has none. */
static find_object *lock_free_find(void)
{
    static find_object *_Atomic found;
    static atomic_bool asked;

    if (!atomic_load_explicit(&asked, memory_order_acquire)) {
        void *symbol = dlsym(RTLD_DEFAULT, "_dl_find_object");
        find_object *function;

        memcpy(&function, &symbol, sizeof function);
        atomic_store(&found, function);
        atomic_store_explicit(&asked, true, memory_order_release);
    }
    return atomic_load_explicit(&found, memory_order_relaxed);
}

bool nxm_image_at(uint64_t address, struct nxm_image *ret_image)
{
    find_object *find = lock_free_find();
    struct found found;

    if (find == NULL)
        return image_by_dladdr(address, ret_image);
    if (find((void *)(uintptr_t)address, &found) != 0)
        return false;
    describe(found.map, ret_image);
    ret_image->start = (uintptr_t)found.map_start;
    ret_image->end = (uintptr_t)found.map_end;
    return true;
}

/* --- its symbols ------------------------------------------------------------------------------------- */

struct symbol_table {
    const ElfW(Sym) *symbols;
    const char *names;
    const uint32_t *gnu_hash;
    const ElfW(Word) *hash;
};

/* The loader relocates these pointers in place, except in images whose dynamic section is read-only. */
static const void *pointer_of(const struct nxm_image *image, const ElfW(Dyn) *entry)
{
    uint64_t value = entry->d_un.d_ptr;

    return (const void *)(uintptr_t)(value < image->base ? value + image->base : value);
}

static bool find_table(const struct nxm_image *image, struct symbol_table *ret_table)
{
    struct symbol_table table = { NULL, NULL, NULL, NULL };

    if (image->map->l_ld == NULL)
        return false;
    for (const ElfW(Dyn) *entry = image->map->l_ld; entry->d_tag != DT_NULL; entry++) {
        switch (entry->d_tag) {
        case DT_SYMTAB:
            table.symbols = pointer_of(image, entry);
            break;
        case DT_STRTAB:
            table.names = pointer_of(image, entry);
            break;
        case DT_GNU_HASH:
            table.gnu_hash = pointer_of(image, entry);
            break;
        case DT_HASH:
            table.hash = pointer_of(image, entry);
            break;
        default:
            break;
        }
    }
    *ret_table = table;
    return table.symbols != NULL && table.names != NULL && (table.gnu_hash != NULL || table.hash != NULL);
}

/* A symbol table states its length nowhere but in its hash: the GNU one by the end of its last chain. */
static uint32_t gnu_symbol_count(const uint32_t *gnu_hash)
{
    uint32_t bucket_count = gnu_hash[0], first = gnu_hash[1], words = gnu_hash[2], last = 0;
    const uint32_t *buckets = gnu_hash + 4 + words * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    const uint32_t *chains = buckets + bucket_count;

    for (uint32_t i = 0; i < bucket_count; i++) {
        if (buckets[i] > last)
            last = buckets[i];
    }
    if (last < first)
        return first;
    while ((chains[last - first] & 1) == 0)
        last++;
    return last + 1;
}

static bool covers(const ElfW(Sym) *symbol, uint64_t offset)
{
    unsigned type = ELF64_ST_TYPE(symbol->st_info);

    return (type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE) && symbol->st_shndx != SHN_UNDEF &&
           symbol->st_shndx != SHN_ABS && symbol->st_value <= offset && offset - symbol->st_value < symbol->st_size;
}

bool nxm_image_symbol(const struct nxm_image *image, uint64_t address, const char **ret_name, uint64_t *ret_value)
{
    uint64_t offset = address - image->base;
    const ElfW(Sym) *best = NULL;
    struct symbol_table table;
    uint32_t count;

    if (!find_table(image, &table))
        return false;
    count = table.gnu_hash != NULL ? gnu_symbol_count(table.gnu_hash) : table.hash[1];
    for (uint32_t i = 0; i < count; i++) {
        if (covers(&table.symbols[i], offset) && (best == NULL || table.symbols[i].st_value > best->st_value))
            best = &table.symbols[i];
    }
    if (best == NULL)
        return false;
    *ret_name = table.names + best->st_name;
    *ret_value = image->base + best->st_value;
    return true;
}
