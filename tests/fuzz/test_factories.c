/* core/factories.c: whatever array a plugin publishes, each factory that can be given back is given back exactly once. */
#include <stdlib.h>
#include <string.h>

#include "core/factories.h"
#include "support.h"

#define POOL 8
#define SLOTS 64

/* One published factory: a block that ends where its size says, or an address at which nothing is. */
struct published {
    NxmemAllocatorFactoryVtable vtable; /* as declared */
    const NxmemAllocatorFactoryVtable *source;
    uint8_t *name;
    bool readable, transferred;
    unsigned releases;
};

static struct {
    struct published pool[POOL];
    uint8_t slots[SLOTS]; /* 0: null, else a member of the pool, from 1 */
    uint64_t count;
    uint32_t status;
} plugin;

static void release(void *ctx)
{
    struct published *factory = ctx;

    factory->releases++;
}

static NxmemStatus open_allocator(void *ctx, const NxmemOpenRequest *request, const NxmemAllocatorVtable **vtable)
{
    (void)ctx;
    (void)request;
    (void)vtable;
    FUZZ_CHECK(false); /* nothing is opened here */
    return (NxmemStatus){ 0 };
}

static NxmemStatus create(const NxmemAllocatorFactoryVtable **factories, uint64_t max_factories, uint64_t *count)
{
    FUZZ_CHECK(max_factories == SLOTS && *count == 0);
    for (size_t i = 0; i < SLOTS; i++) {
        FUZZ_CHECK(factories[i] == NULL);
        if (plugin.slots[i] != 0)
            factories[i] = plugin.pool[plugin.slots[i] - 1].source;
    }
    *count = plugin.count;
    return (NxmemStatus){ .code = plugin.status };
}

/* --- an array --------------------------------------------------------------------------------------------- */

/* A name that ends nowhere still has the bytes that may be looked at. */
static uint8_t *make_name(struct fuzz_input *input)
{
    uint8_t *name;

    if (fuzz_one_in(input, 8))
        return NULL;
    if (fuzz_one_in(input, 8)) {
        size_t length = NXM_NAME_CAPACITY - 2 + fuzz_u8(input) % 2;

        name = malloc(NXM_NAME_CAPACITY);
        memset(name, 'n', NXM_NAME_CAPACITY);
        if (fuzz_one_in(input, 2))
            name[length] = '\0';
        return name;
    }
    return (uint8_t *)fuzz_string(input, 16);
}

static void make_factory(struct fuzz_input *input, struct published *factory)
{
    uint32_t size;

    *factory = (struct published){ .name = make_name(input) };
    if (fuzz_one_in(input, 8)) {
        factory->source = (const void *)(uintptr_t)(fuzz_u8(input) | 1u); /* misaligned, and nothing there */
        return;
    }
    factory->vtable = (NxmemAllocatorFactoryVtable){
        .struct_size = (uint32_t)fuzz_number(input, sizeof factory->vtable),
        .abi_minor = fuzz_u8(input) % 3,
        .name = factory->name,
        .device = { fuzz_one_in(input, 4) ? (uint32_t)fuzz_number(input, 3) : fuzz_u8(input) % 3u, fuzz_u8(input) },
        .capability_flags = fuzz_u8(input),
        .ctx = factory,
        .open_allocator = fuzz_one_in(input, 8) ? NULL : open_allocator,
        .release = fuzz_one_in(input, 8) ? NULL : release,
    };
    size = factory->vtable.struct_size < sizeof factory->vtable ? factory->vtable.struct_size : sizeof factory->vtable;
    factory->source = fuzz_exact(&factory->vtable, size < sizeof(uint32_t) ? sizeof(uint32_t) : size);
    factory->readable = size == sizeof factory->vtable && factory->vtable.release != NULL;
}

static void make_array(struct fuzz_input *input)
{
    unsigned filled;

    memset(&plugin, 0, sizeof plugin);
    for (size_t i = 0; i < POOL; i++)
        make_factory(input, &plugin.pool[i]);
    plugin.status = fuzz_one_in(input, 16) ? fuzz_u8(input) : 0;
    filled = fuzz_one_in(input, 8) ? SLOTS : fuzz_u8(input) % (POOL + 2);
    for (size_t i = 0; i < filled; i++) {
        plugin.slots[i] = fuzz_one_in(input, 8) ? 0 : (uint8_t)(1 + fuzz_u8(input) % POOL);
        if (plugin.slots[i] != 0)
            plugin.pool[plugin.slots[i] - 1].transferred = true;
    }
    plugin.count = fuzz_number(input, filled);
}

static void free_array(void)
{
    for (size_t i = 0; i < POOL; i++) {
        if (((uintptr_t)plugin.pool[i].source & 1) == 0)
            free((void *)(uintptr_t)plugin.pool[i].source);
        free(plugin.pool[i].name);
    }
}

/* --- what must come of it ------------------------------------------------------------------------------------ */

static bool utf8(const uint8_t *s)
{
    while (*s != 0) {
        unsigned more = *s < 0x80 ? 0 : (*s & 0xE0) == 0xC0 ? 1 : (*s & 0xF0) == 0xE0 ? 2 : 3;
        uint32_t point = more == 0 ? *s : *s & (0x3Fu >> more);
        static const uint32_t least[4] = { 0, 0x80, 0x800, 0x10000 };

        if (*s >= 0xF8 || (*s & 0xC0) == 0x80)
            return false;
        for (unsigned i = 1; i <= more; i++) {
            if ((s[i] & 0xC0) != 0x80)
                return false;
            point = point << 6 | (s[i] & 0x3Fu);
        }
        if (point < least[more] || point > 0x10FFFF || (point >= 0xD800 && point <= 0xDFFF))
            return false;
        s += more + 1;
    }
    return true;
}

static int judge(const struct published *factory)
{
    if (!factory->readable || factory->vtable.open_allocator == NULL)
        return NXM_ECALL;
    if (factory->vtable.device.tier > 2 || factory->name == NULL ||
        memchr(factory->name, '\0', strnlen((const char *)factory->name, NXM_NAME_CAPACITY - 1) + 1) == NULL ||
        !utf8(factory->name))
        return NXM_ECONTRACT;
    return NXM_OK;
}

/* The result, and which of the pool are kept, in order. */
static int expected(unsigned ret_kept[POOL], size_t *ret_count)
{
    *ret_count = 0;
    if (plugin.status != 0)
        return plugin.status == NXMEM_STATUS_OUT_OF_MEMORY ? NXM_ENOMEM : NXM_ECALL;
    if (plugin.count > SLOTS)
        return NXM_ECONTRACT;
    for (size_t i = 0; i < plugin.count; i++) {
        unsigned member = plugin.slots[i];
        bool again = false;
        int result;

        for (size_t j = 0; j < *ret_count; j++)
            again = again || ret_kept[j] == member;
        if (again)
            continue;
        result = member == 0 ? NXM_ECALL : judge(&plugin.pool[member - 1]);
        if (result != NXM_OK) {
            *ret_count = 0;
            return result;
        }
        ret_kept[(*ret_count)++] = member;
    }
    return NXM_OK;
}

static void check_releases(const unsigned *kept, size_t count, unsigned of_kept)
{
    for (unsigned i = 0; i < POOL; i++) {
        const struct published *factory = &plugin.pool[i];
        unsigned due = plugin.status == 0 && factory->transferred && factory->readable;

        for (size_t j = 0; j < count; j++) {
            if (kept[j] == i + 1)
                due = of_kept;
        }
        FUZZ_CHECK(factory->releases == due);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    static struct nxm_factories factories;
    struct fuzz_input input = { data, length };
    uint32_t ceiling = fuzz_u8(&input) % 2;
    unsigned kept[POOL];
    size_t count;
    int wanted, result;

    make_array(&input);
    wanted = expected(kept, &count);
    result = nxm_factories_take(create, ceiling, &factories, NULL);
    FUZZ_CHECK(result == wanted);
    FUZZ_CHECK(factories.count == count);
    check_releases(kept, count, 0);
    for (size_t i = 0; i < count; i++) {
        const struct published *factory = &plugin.pool[kept[i] - 1];

        FUZZ_CHECK(factories.list[i].vtable.ctx == factory);
        FUZZ_CHECK(factories.list[i].vtable.abi_minor <= ceiling);
        FUZZ_CHECK(strcmp(factories.list[i].name, (const char *)factory->name) == 0);
        nxm_factory_ref(&factories.list[i]);
        FUZZ_CHECK(!nxm_factory_unref(&factories.list[i]));
    }
    check_releases(kept, count, 0);
    for (size_t i = 0; i < count; i++)
        FUZZ_CHECK(nxm_factory_unref(&factories.list[i]));
    check_releases(kept, count, 1);
    free_array();
    return 0;
}
