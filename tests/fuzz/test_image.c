/* core/image.c: in a symbol table of any contents the name found is that of the symbol around the address which starts
 * last, or none is; with the new hash section, with the old one, relocated by the loader or not. The table itself is
 * whole, as it is in an image that the loader has accepted, and every part of it is an exact block. */
#include <elf.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "core/image.h"
#include "support.h"

#define SYMBOLS_MAX 24
#define BUCKETS_MAX 5
#define NAMES_BYTES 64

struct table {
    Elf64_Sym *symbols;
    uint32_t *hash;
    char *names;
    Elf64_Dyn *dynamic;
    uint32_t count;
};

static void make_symbols(struct fuzz_input *input, struct table *table)
{
    static const uint8_t types[] = { STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE, STT_OBJECT, STT_FUNC, STT_FUNC };
    Elf64_Sym symbols[SYMBOLS_MAX];

    table->count = 1 + fuzz_u8(input) % SYMBOLS_MAX;
    memset(symbols, 0, sizeof symbols);
    for (uint32_t i = 1; i < table->count; i++) {
        symbols[i].st_name = fuzz_u8(input) % NAMES_BYTES;
        symbols[i].st_info = (uint8_t)(STB_GLOBAL << 4 | types[fuzz_u8(input) % sizeof types]);
        symbols[i].st_shndx = fuzz_one_in(input, 8) ? SHN_UNDEF : fuzz_one_in(input, 8) ? SHN_ABS : 7;
        symbols[i].st_value = fuzz_number(input, 64);
        symbols[i].st_size = fuzz_number(input, 16);
    }
    table->symbols = fuzz_exact(symbols, table->count * sizeof symbols[0]);
}

/* The GNU hash: symbols from `first` on are in chains, which end where the last one does. */
static void make_gnu_hash(struct fuzz_input *input, struct table *table)
{
    uint32_t words[4 + 2 + BUCKETS_MAX + SYMBOLS_MAX] = { 0 }, buckets = 1 + fuzz_u8(input) % BUCKETS_MAX;
    uint32_t first = fuzz_one_in(input, 4) ? table->count : 1 + fuzz_u8(input) % table->count;
    uint32_t *bucket = words + 4 + 2, *chain = bucket + buckets, used = 0;

    words[0] = buckets;
    words[1] = first;
    words[2] = 1; /* one 64-bit word of the filter */
    for (uint32_t i = first; i < table->count; i++) {
        bool last = i + 1 == table->count || used + 1 == buckets ? i + 1 == table->count : fuzz_one_in(input, 3);

        if (bucket[used] == 0)
            bucket[used] = i;
        chain[i - first] = (uint32_t)fuzz_u8(input) << 1 | last;
        used += last && i + 1 < table->count;
    }
    table->hash = fuzz_exact(words, (size_t)(chain + (table->count - first) - words) * sizeof words[0]);
}

static void make_old_hash(struct table *table)
{
    uint32_t words[2] = { 1, table->count };

    table->hash = fuzz_exact(words, sizeof words); /* only its head is looked at */
}

static void make_dynamic(struct table *table, int64_t hash_tag, uint64_t base, bool relocated)
{
    uint64_t less = relocated ? 0 : base;
    Elf64_Dyn entries[5];

    memset(entries, 0, sizeof entries);
    entries[0].d_tag = DT_STRTAB;
    entries[0].d_un.d_ptr = (uintptr_t)table->names - less;
    entries[1].d_tag = DT_NEEDED;
    entries[2].d_tag = hash_tag;
    entries[2].d_un.d_ptr = (uintptr_t)table->hash - less;
    entries[3].d_tag = DT_SYMTAB;
    entries[3].d_un.d_ptr = (uintptr_t)table->symbols - less;
    table->dynamic = fuzz_exact(entries, sizeof entries);
}

static const Elf64_Sym *expected(const struct table *table, uint64_t offset)
{
    const Elf64_Sym *best = NULL;

    for (uint32_t i = 0; i < table->count; i++) {
        const Elf64_Sym *symbol = &table->symbols[i];
        unsigned type = symbol->st_info & 0xF;
        bool code = type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE;
        bool here = symbol->st_shndx != SHN_UNDEF && symbol->st_shndx != SHN_ABS;

        if (!code || !here || offset < symbol->st_value || offset - symbol->st_value >= symbol->st_size)
            continue;
        if (best == NULL || symbol->st_value > best->st_value)
            best = symbol;
    }
    return best;
}

static uint64_t lowest(const struct table *table)
{
    uint64_t low = (uintptr_t)table->symbols;

    low = (uintptr_t)table->names < low ? (uintptr_t)table->names : low;
    return (uintptr_t)table->hash < low ? (uintptr_t)table->hash : low;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    struct fuzz_input input = { data, length };
    bool gnu = !fuzz_one_in(&input, 4), relocated = !fuzz_one_in(&input, 4);
    uint64_t offset = fuzz_number(&input, 64), value = 0;
    char names[NAMES_BYTES];
    const char *name = NULL;
    struct link_map map;
    struct nxm_image image = { .map = &map };
    struct table table;
    const Elf64_Sym *wanted;
    bool found;

    memset(&map, 0, sizeof map);
    fuzz_fill(&input, names, sizeof names - 1);
    names[sizeof names - 1] = '\0';
    table.names = fuzz_exact(names, sizeof names);
    make_symbols(&input, &table);
    if (gnu)
        make_gnu_hash(&input, &table);
    else
        make_old_hash(&table);
    image.base = lowest(&table); /* what is not relocated lies below it, as offsets in a file do */
    make_dynamic(&table, gnu ? DT_GNU_HASH : DT_HASH, image.base, relocated);
    map.l_ld = table.dynamic;
    map.l_addr = image.base;
    wanted = expected(&table, offset);
    found = nxm_image_symbol(&image, image.base + offset, &name, &value);
    FUZZ_CHECK(found == (wanted != NULL));
    if (found) {
        FUZZ_CHECK(name == table.names + wanted->st_name);
        FUZZ_CHECK(value == image.base + wanted->st_value);
    }
    map.l_ld = NULL;
    FUZZ_CHECK(!nxm_image_symbol(&image, image.base + offset, &name, &value));
    free(table.dynamic);
    free(table.hash);
    free(table.names);
    free(table.symbols);
    return 0;
}
