#include "route_names.h"

#include "cuda_types.h"
#include "objects.h"
#include "route_elf.h"

static const char *const passed[] = {
#define PASSED(symbol) #symbol,
#include "cuda_passed.def"
};
enum { PASSED_COUNT = sizeof passed / sizeof passed[0], WORDS = (PASSED_COUNT + 63) / 64, API_WORDS = (NXM_API_COUNT + 63) / 64 };

static uint64_t passed_asked[WORDS], hooked[API_WORDS];
static bool free_unseen;

static void set_bit(uint64_t *words, size_t index)
{
    uint64_t bit = UINT64_C(1) << (index % 64);
    if (!(__atomic_load_n(&words[index / 64], __ATOMIC_RELAXED) & bit)) __atomic_fetch_or(&words[index / 64], bit, __ATOMIC_RELAXED);
}

static bool get_bit(const uint64_t *words, size_t index)
{
    return __atomic_load_n(&words[index / 64], __ATOMIC_RELAXED) >> (index % 64) & 1;
}

/* --- what a name is -------------------------------------------------------------------------------- */

size_t nxm_names_find_passed(const char *symbol)
{
    for (size_t i = 0; i < PASSED_COUNT; ++i)
        if (nxm_route_equal(passed[i], symbol)) return i;
    return (size_t)-1;
}

bool nxm_names_is_cuda(const char *symbol)
{
    if (symbol[0] != 'c' || symbol[1] != 'u') return false;
    const char *rest = symbol + (nxm_route_starts(symbol + 2, "da") ? 4 : 2);
    return *rest >= 'A' && *rest <= 'Z';
}

static bool contains(const char *text, const char *part)
{
    for (; *text; ++text)
        if (nxm_route_starts(text, part)) return true;
    return false;
}

bool nxm_names_allocates(const char *symbol)
{
    static const char *const words[] = {"Alloc", "Malloc", "Free"};
    static const char *const things[] = {"Mem", "Array", "Pool", "Ipc"};
    static const char *const verbs[] = {"Create", "Destroy", "Map", "Unmap", "Reserve", "Register", "Unregister", "Import", "Open",
                                        "Close", "Release"};
    bool thing = false, verb = false;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; ++i)
        if (contains(symbol, words[i])) return true;
    for (size_t i = 0; i < sizeof things / sizeof things[0]; ++i) thing = thing || contains(symbol, things[i]);
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; ++i) verb = verb || contains(symbol, verbs[i]);
    return thing && verb;
}

/* --- what is not known ----------------------------------------------------------------------------- */

static struct nxm_noted_table unknown, uncovered;
static struct nxm_noted_table *kept_unknown, *kept_uncovered; /* NULL: none */

static bool is_noted(const struct nxm_noted *noted, const char *text, int version)
{
    size_t i = 0;
    while (i + 1 < NXM_NAME_BYTES && noted->text[i] && noted->text[i] == text[i]) ++i;
    return (i + 1 == NXM_NAME_BYTES || noted->text[i] == text[i]) && noted->version == version;
}

static bool frees_device_memory(const char *text)
{
    return nxm_route_starts(text, "cuMemFree") && !nxm_route_starts(text, "cuMemFreeHost");
}

/* Two threads may note the same name at once, and it stands there twice: the report tells each once. */
static void note_in(struct nxm_noted_table *table, const char *text, int version, bool found)
{
    for (unsigned i = 0; i < NXM_NOTED_MAX; ++i) {
        unsigned state = __atomic_load_n(&table->state[i], __ATOMIC_ACQUIRE), expected = NXM_NOTED_EMPTY;
        if (state == NXM_NOTED_FULL && is_noted(&table->list[i], text, version)) {
            if (found) __atomic_store_n(&table->list[i].found, true, __ATOMIC_RELAXED);
            return;
        }
        if (state != NXM_NOTED_EMPTY) continue;
        if (!__atomic_compare_exchange_n(&table->state[i], &expected, NXM_NOTED_FILLING, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            continue;
        for (size_t k = 0; k + 1 < NXM_NAME_BYTES && text[k]; ++k) table->list[i].text[k] = text[k];
        table->list[i].version = version;
        table->list[i].found = found;
        table->list[i].allocates = nxm_names_allocates(text);
        __atomic_store_n(&table->state[i], NXM_NOTED_FULL, __ATOMIC_RELEASE);
        return;
    }
}

static bool read_noted(const struct nxm_noted_table *table, size_t index, struct nxm_noted *ret_noted)
{
    if (index >= NXM_NOTED_MAX || __atomic_load_n(&table->state[index], __ATOMIC_ACQUIRE) != NXM_NOTED_FULL) return false;
    *ret_noted = table->list[index];
    ret_noted->found = __atomic_load_n(&table->list[index].found, __ATOMIC_RELAXED);
    return true;
}

static void note(struct nxm_noted_table *table, const char *text, int version, bool found)
{
    struct nxm_noted_table *kept = __atomic_load_n(table == &unknown ? &kept_unknown : &kept_uncovered, __ATOMIC_ACQUIRE);
    if (table == &unknown && frees_device_memory(text)) __atomic_store_n(&free_unseen, true, __ATOMIC_RELAXED);
    note_in(table, text, version, found);
    if (kept) note_in(kept, text, version, found);
}

static void note_all_in(const struct nxm_noted_table *from, struct nxm_noted_table *to)
{
    struct nxm_noted noted;
    for (size_t i = 0; read_noted(from, i, &noted); ++i) note_in(to, noted.text, noted.version, noted.found);
}

void nxm_names_keep_in(struct nxm_noted_table *of_unknown, struct nxm_noted_table *of_uncovered)
{
    __atomic_store_n(&kept_unknown, of_unknown, __ATOMIC_RELEASE);
    __atomic_store_n(&kept_uncovered, of_uncovered, __ATOMIC_RELEASE);
    if (of_unknown) note_all_in(&unknown, of_unknown);
    if (of_uncovered) note_all_in(&uncovered, of_uncovered);
}

/* --- noting ---------------------------------------------------------------------------------------- */

void nxm_names_hooked(enum nxm_api api)
{
    set_bit(hooked, api);
}

struct search {
    const char *symbol;
    bool found;
};

static void search_look(void *argument, const struct nxm_objects *objects)
{
    struct search *search = argument;
    search->found = nxm_objects_definer(objects, search->symbol, 0) != NXM_NO_OBJECT;
}

/* What nobody asked to see must be known before the process ends: a report may be written where the loader cannot be asked. */
static void note_if_there(const char *symbol)
{
    struct search search = {.symbol = symbol};
    if (nxm_objects_query(search_look, &search) && search.found) note(&unknown, symbol, 0, true);
}

void nxm_names_asked(const char *symbol)
{
    if (!nxm_names_is_cuda(symbol)) return;
    bool all = nxm_route_coverage();
    if (!all && !nxm_names_allocates(symbol)) return;
    size_t index = nxm_names_find_passed(symbol);
    if (index != (size_t)-1) {
        if (all) set_bit(passed_asked, index);
    } else {
        if (all) note(&unknown, symbol, 0, false);
        if (nxm_names_allocates(symbol)) note_if_there(symbol);
    }
}

struct naming {
    const void *address;
    const char *name;
    int version;
};

static void given_look(void *argument, const struct nxm_objects *objects)
{
    const struct naming *naming = argument;
    size_t owner = nxm_objects_owner(objects, naming->address);
    if (owner != NXM_NO_OBJECT && nxm_object_is_shim(&objects->list[owner])) return; /* a hook already */
    const char *symbol = owner == NXM_NO_OBJECT || !objects->list[owner].elf.symbols
                             ? NULL
                             : nxm_elf_name_at(&objects->list[owner].elf, naming->address);
    size_t index = symbol ? nxm_names_find_passed(symbol) : (size_t)-1;
    if (index != (size_t)-1) set_bit(passed_asked, index);
    else note(&unknown, symbol ? symbol : naming->name, symbol ? 0 : naming->version, true);
}

/* Up to the version of our headers a known name has no form but the known ones. */
void nxm_names_given(const void *real, const char *name, int version)
{
    bool all = nxm_route_coverage();
    if (!name || !nxm_names_is_cuda(name) || (!all && !nxm_names_allocates(name))) return;
    size_t index = nxm_names_find_passed(name);
    if (index != (size_t)-1 && version <= CUDA_VERSION) {
        if (all) set_bit(passed_asked, index);
        return;
    }
    struct naming naming = {.address = real, .name = name, .version = version == INT32_MAX ? 0 : version};
    nxm_objects_query(given_look, &naming);
}

void nxm_names_uncovered(const char *file, bool own_namespace)
{
    note(&uncovered, nxm_route_basename(file), 0, own_namespace);
}

bool nxm_names_free_unseen(void)
{
    return __atomic_load_n(&free_unseen, __ATOMIC_RELAXED);
}

/* --- for the report -------------------------------------------------------------------------------- */

bool nxm_names_is_hooked(enum nxm_api api)
{
    return get_bit(hooked, api);
}

const char *nxm_names_passed(size_t index, bool *ret_asked)
{
    if (index >= PASSED_COUNT) return NULL;
    *ret_asked = get_bit(passed_asked, index);
    return passed[index];
}

bool nxm_names_unknown(size_t index, struct nxm_noted *ret_noted)
{
    return read_noted(&unknown, index, ret_noted);
}

bool nxm_names_uncovered_file(size_t index, struct nxm_noted *ret_noted)
{
    return read_noted(&uncovered, index, ret_noted);
}
