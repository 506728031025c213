#include "route_elf.h"

#define VERSION_HIDDEN 0x8000 /* not the default version of its name */
#define VERSION_INDEX 0x7fff

size_t nxm_route_length(const char *text)
{
    size_t length = 0;
    while (text[length]) ++length;
    return length;
}

bool nxm_route_equal(const char *a, const char *b)
{
    while (*a && *a == *b) {
        ++a;
        ++b;
    }
    return *a == *b;
}

bool nxm_route_starts(const char *text, const char *prefix)
{
    while (*prefix && *text == *prefix) {
        ++text;
        ++prefix;
    }
    return !*prefix;
}

const char *nxm_route_basename(const char *path)
{
    const char *base = path;
    for (; *path; ++path)
        if (*path == '/') base = path + 1;
    return base;
}

/* glibc relocates these entries in place, musl and read-only sections (the vdso) leave offsets. */
static const void *located(uintptr_t base, ElfW(Addr) value)
{
    return (const void *)(value < base ? base + value : value);
}

bool nxm_elf_open(uintptr_t base, const ElfW(Dyn) *dynamic, struct nxm_elf *ret_elf)
{
    if (!dynamic) return false;
    struct nxm_elf elf = {.base = base, .dynamic = dynamic};
    ElfW(Addr) soname = 0;
    bool named = false;
    for (const ElfW(Dyn) *entry = dynamic; entry->d_tag != DT_NULL; ++entry) {
        const void *where = located(base, entry->d_un.d_ptr);
        switch (entry->d_tag) {
        case DT_SYMTAB: elf.symbols = where; break;
        case DT_STRTAB: elf.strings = where; break;
        case DT_GNU_HASH: elf.gnu_hash = where; break;
        case DT_HASH: elf.sysv_hash = where; break;
        case DT_VERSYM: elf.versions = where; break;
        case DT_VERNEED: elf.needs = where; break;
        case DT_SONAME:
            soname = entry->d_un.d_val;
            named = true;
            break;
        default: break;
        }
    }
    if (!elf.symbols || !elf.strings) return false;
    if (named) elf.soname = elf.strings + soname;
    *ret_elf = elf;
    return true;
}

static bool is_definition(const struct nxm_elf *elf, size_t index)
{
    const ElfW(Sym) *symbol = &elf->symbols[index];
    unsigned type = symbol->st_info & 0xf;
    unsigned binding = symbol->st_info >> 4;
    return symbol->st_shndx != SHN_UNDEF && symbol->st_value && type != STT_TLS && binding != STB_LOCAL &&
           !(elf->versions && (elf->versions[index] & VERSION_HIDDEN));
}

static bool is_named(const struct nxm_elf *elf, size_t index, const char *name)
{
    return nxm_route_equal(elf->strings + elf->symbols[index].st_name, name);
}

static void *address_of(const struct nxm_elf *elf, size_t index)
{
    const ElfW(Sym) *symbol = &elf->symbols[index];
    return (void *)(symbol->st_shndx == SHN_ABS ? symbol->st_value : elf->base + symbol->st_value);
}

/* The GNU hash section: four words, a Bloom filter, the buckets, then one hash for each symbol from `first` on. */
struct gnu_hash {
    uint32_t bucket_count, first;
    const uint32_t *buckets, *chain;
};

static struct gnu_hash gnu_hash_open(const uint32_t *section)
{
    uint32_t filter_words = section[2];
    const uint32_t *buckets = section + 4 + filter_words * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    return (struct gnu_hash){section[0], section[1], buckets, buckets + section[0]};
}

static void *define_by_gnu_hash(const struct nxm_elf *elf, const char *name)
{
    struct gnu_hash table = gnu_hash_open(elf->gnu_hash);
    if (!table.bucket_count) return NULL;
    uint32_t hash = 5381;
    for (const char *c = name; *c; ++c) hash = hash * 33 + (unsigned char)*c;
    uint32_t index = table.buckets[hash % table.bucket_count];
    if (index < table.first) return NULL;
    for (;; ++index) {
        uint32_t entry = table.chain[index - table.first];
        if ((entry | 1) == (hash | 1) && is_named(elf, index, name) && is_definition(elf, index))
            return address_of(elf, index);
        if (entry & 1) return NULL; /* the last of its bucket */
    }
}

static void *define_by_sysv_hash(const struct nxm_elf *elf, const char *name)
{
    uint32_t hash = 0;
    for (const char *c = name; *c; ++c) {
        hash = (hash << 4) + (unsigned char)*c;
        uint32_t top = hash & 0xf0000000;
        hash ^= top >> 24;
        hash &= ~top;
    }
    const ElfW(Word) *buckets = elf->sysv_hash + 2;
    const ElfW(Word) *chain = buckets + elf->sysv_hash[0];
    if (!elf->sysv_hash[0]) return NULL;
    for (uint32_t index = buckets[hash % elf->sysv_hash[0]]; index != STN_UNDEF; index = chain[index])
        if (is_named(elf, index, name) && is_definition(elf, index)) return address_of(elf, index);
    return NULL;
}

void *nxm_elf_define(const struct nxm_elf *elf, const char *name)
{
    if (elf->gnu_hash) return define_by_gnu_hash(elf, name);
    if (elf->sysv_hash) return define_by_sysv_hash(elf, name);
    return NULL;
}

/* The dynamic section does not say how many symbols there are; the hash sections do. */
static size_t symbol_count(const struct nxm_elf *elf)
{
    if (elf->sysv_hash) return elf->sysv_hash[1];
    if (!elf->gnu_hash) return 0;
    struct gnu_hash table = gnu_hash_open(elf->gnu_hash);
    uint32_t last = 0;
    for (uint32_t bucket = 0; bucket < table.bucket_count; ++bucket)
        if (table.buckets[bucket] > last) last = table.buckets[bucket];
    if (last < table.first) return table.first;
    while (!(table.chain[last - table.first] & 1)) ++last;
    return (size_t)last + 1;
}

const char *nxm_elf_name_at(const struct nxm_elf *elf, const void *address)
{
    size_t count = symbol_count(elf);
    for (size_t index = 1; index < count; ++index)
        if (is_definition(elf, index) && address_of(elf, index) == address) return elf->strings + elf->symbols[index].st_name;
    return NULL;
}

const char *nxm_elf_next_reference(const struct nxm_elf *elf, size_t *cursor)
{
    for (size_t count = symbol_count(elf); ++*cursor < count;)
        if (elf->symbols[*cursor].st_shndx == SHN_UNDEF) return elf->strings + elf->symbols[*cursor].st_name;
    return NULL;
}

static const char *library_of_version(const struct nxm_elf *elf, unsigned version)
{
    const ElfW(Verneed) *need = elf->needs;
    while (need) {
        const ElfW(Vernaux) *wanted = (const ElfW(Vernaux) *)((const char *)need + need->vn_aux);
        for (unsigned i = 0; i < need->vn_cnt; ++i) {
            if (wanted->vna_other == version) return elf->strings + need->vn_file;
            wanted = (const ElfW(Vernaux) *)((const char *)wanted + wanted->vna_next);
        }
        need = need->vn_next ? (const ElfW(Verneed) *)((const char *)need + need->vn_next) : NULL;
    }
    return NULL;
}

const char *nxm_elf_wanted_library(const struct nxm_elf *elf, const char *name)
{
    if (!elf->versions || !elf->needs) return NULL;
    size_t count = symbol_count(elf);
    for (size_t index = 1; index < count; ++index)
        if (elf->symbols[index].st_shndx == SHN_UNDEF && is_named(elf, index, name))
            return library_of_version(elf, elf->versions[index] & VERSION_INDEX);
    return NULL;
}

const char *nxm_elf_next_needed(const struct nxm_elf *elf, size_t *cursor)
{
    for (const ElfW(Dyn) *entry = elf->dynamic + *cursor; entry->d_tag != DT_NULL; ++entry)
        if (entry->d_tag == DT_NEEDED) {
            *cursor = (size_t)(entry - elf->dynamic) + 1;
            return elf->strings + entry->d_un.d_val;
        }
    return NULL;
}
