#include "runtime.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "objects.h"
#include "route_libc.h"

enum row {
#define RUNTIME(symbol, like, class_) ROW_##symbol,
#include "cuda_api.def"
    ROWS
};

static const char *const row_names[ROWS] = {
#define RUNTIME(symbol, like, class_) [ROW_##symbol] = #symbol,
#include "cuda_api.def"
};

#define FIRST_API (NXM_API_COUNT - ROWS) /* the runtime's rows end the sequence */
#define RUNTIME(symbol, like, class_) _Static_assert(NXM_API_##symbol == FIRST_API + (int)ROW_##symbol, #symbol);
#include "cuda_api.def"

static void *const variants[NXM_RUNTIMES][ROWS] = {
#define RUNTIME(symbol, like, class_) [0][ROW_##symbol] = (void *)nxm_slot0_##symbol,
#include "cuda_api.def"
#define RUNTIME(symbol, like, class_) [1][ROW_##symbol] = (void *)nxm_slot1_##symbol,
#include "cuda_api.def"
#define RUNTIME(symbol, like, class_) [2][ROW_##symbol] = (void *)nxm_slot2_##symbol,
#include "cuda_api.def"
#define RUNTIME(symbol, like, class_) [3][ROW_##symbol] = (void *)nxm_slot3_##symbol,
#include "cuda_api.def"
};

static unsigned row_of(enum nxm_api api)
{
    return (unsigned)api - FIRST_API;
}

/* --- slots ----------------------------------------------------------------------------------------- */

struct slot {
    const void *identity; /* the runtime's, pinned: names it for ever */
    void *real[ROWS];
};

static struct slot slots[NXM_RUNTIMES];
static unsigned slots_claimed;   /* one writer at a time: whoever moved this from `slots_published` */
static unsigned slots_published; /* slots below this never change */

enum { NO_SLOT = NXM_RUNTIMES };

static unsigned slot_of(const void *identity)
{
    unsigned count = __atomic_load_n(&slots_published, __ATOMIC_ACQUIRE);
    for (unsigned i = 0; i < count; ++i)
        if (slots[i].identity == identity) return i;
    return NO_SLOT;
}

/* The claim that succeeds has seen every published slot, so a runtime gets one slot only. Others wait for
 * the length of a copy: the loader has been asked before. */
static unsigned slot_publish(const struct slot *filled)
{
    for (;;) {
        unsigned count = __atomic_load_n(&slots_published, __ATOMIC_ACQUIRE);
        unsigned known = slot_of(filled->identity);
        if (known != NO_SLOT || count == NXM_RUNTIMES) return known;
        if (__atomic_compare_exchange_n(&slots_claimed, &count, count + 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
            slots[count] = *filled;
            __atomic_store_n(&slots_published, count + 1, __ATOMIC_RELEASE);
            return count;
        }
        nxm_spin();
    }
}

static unsigned slot_register(const struct nxm_object *runtime)
{
    unsigned known = slot_of(runtime->identity);
    if (known != NO_SLOT) return known;
    void *handle = nxm_route_pin(runtime->name);
    struct slot slot = {.identity = runtime->identity};
    for (unsigned row = 0; row < ROWS; ++row) { /* names it lacks are not asked for: see real.c */
        void *defined = nxm_elf_define(&runtime->elf, row_names[row]);
        slot.real[row] = defined && handle ? nxm_next_dlsym(handle, row_names[row]) : defined;
    }
    return slot_publish(&slot);
}

void *nxm_runtime_slot_real(unsigned slot, enum nxm_api api)
{
    return slots[slot].real[row_of(api)];
}

/* --- whose runtime --------------------------------------------------------------------------------- */

struct binding {
    const char *name;
    const void *caller;
    const void *global; /* in: the definition in the program's scope, asked when nothing nearer decides */
    struct nxm_object runtime;
    bool found;
    bool undecided; /* several, and the caller's own object prefers none */
};

/* The library that the caller's reference was linked against, else the first in the caller's own scope. */
static size_t runtime_of_caller(const struct binding *binding, const struct nxm_objects *objects, size_t from)
{
    size_t caller = nxm_objects_owner(objects, binding->caller);
    if (caller == NXM_NO_OBJECT || !objects->list[caller].elf.symbols) return NXM_NO_OBJECT;
    const char *library = nxm_elf_wanted_library(&objects->list[caller].elf, binding->name);
    size_t wanted = library ? nxm_objects_named(objects, library, from) : NXM_NO_OBJECT;
    if (wanted != NXM_NO_OBJECT && nxm_objects_definer(objects, binding->name, wanted) == wanted) return wanted;
    return nxm_objects_needed_definer(objects, caller, binding->name, from);
}

static void binding_look(void *argument, const struct nxm_objects *objects)
{
    struct binding *binding = argument;
    size_t from = nxm_objects_behind_shim(objects);
    size_t first = nxm_objects_definer(objects, binding->name, from);
    if (first == NXM_NO_OBJECT) return;
    size_t chosen = first;
    if (nxm_objects_definer(objects, binding->name, first + 1) != NXM_NO_OBJECT) {
        size_t own = runtime_of_caller(binding, objects, from);
        size_t global = binding->global ? nxm_objects_owner(objects, binding->global) : NXM_NO_OBJECT;
        binding->undecided = own == NXM_NO_OBJECT;
        if (global != NXM_NO_OBJECT) chosen = global;
        if (own != NXM_NO_OBJECT) chosen = own;
    }
    binding->runtime = objects->list[chosen];
    binding->found = true;
}

static bool runtime_for(const char *name, const void *caller, struct nxm_object *ret_runtime)
{
    if (!nxm_next_dlsym) nxm_route_resolve();
    if (!nxm_next_dlsym) return false;
    struct binding binding = {.name = name, .caller = caller};
    if (!nxm_objects_query(binding_look, &binding) || !binding.found) return false;
    if (binding.undecided && (binding.global = nxm_next_dlsym(RTLD_NEXT, name)))
        nxm_objects_query(binding_look, &binding);
    *ret_runtime = binding.runtime;
    return true;
}

/* --- call sites ------------------------------------------------------------------------------------ */

/* One word a site: address << 8 | slot + 1. A word is whole or another's; a miss costs a search. */
enum { SITES = 128, SLOT_BITS = 8 };
static uint64_t sites[SITES];

static uint64_t *site_of(const void *caller)
{
    uintptr_t at = (uintptr_t)caller;
    return &sites[(at ^ (at >> 7)) % SITES];
}

static unsigned site_slot(const void *caller)
{
    uint64_t word = __atomic_load_n(site_of(caller), __ATOMIC_ACQUIRE); /* pairs with the store: the slot is whole */
    return word >> SLOT_BITS == (uintptr_t)caller && word ? (unsigned)(word & 0xff) - 1 : NO_SLOT;
}

void nxm_runtime_forget_callers(void)
{
    for (unsigned i = 0; i < SITES; ++i) __atomic_store_n(&sites[i], 0, __ATOMIC_RELAXED);
}

void *nxm_runtime_real(enum nxm_api api, const void *caller)
{
    unsigned slot = site_slot(caller);
    if (slot != NO_SLOT)
        return slots[slot].real[row_of(api)];
    struct nxm_object runtime;
    if (!runtime_for(row_names[row_of(api)], caller, &runtime)) return NULL;
    slot = slot_register(&runtime);
    if (slot == NO_SLOT) return nxm_elf_define(&runtime.elf, row_names[row_of(api)]); /* a fifth runtime */
    __atomic_store_n(site_of(caller), (uint64_t)(uintptr_t)caller << SLOT_BITS | (slot + 1), __ATOMIC_RELEASE);
    return slots[slot].real[row_of(api)];
}

/* --- variants -------------------------------------------------------------------------------------- */

struct owner {
    const void *address;
    const char *name;
    struct nxm_object object;
    bool found;
};

static void owner_look(void *argument, const struct nxm_objects *objects)
{
    struct owner *owner = argument;
    size_t index = nxm_objects_owner(objects, owner->address);
    if (index == NXM_NO_OBJECT || nxm_objects_definer(objects, owner->name, index) != index) return;
    const struct nxm_elf *elf = &objects->list[index].elf;
    if (nxm_elf_define(elf, owner->name) != owner->address) return;
    if (!nxm_elf_define(elf, "cudaRuntimeGetVersion")) return; /* somebody's wrapper of a few names */
    owner->object = objects->list[index];
    owner->found = true;
}

void *nxm_runtime_variant(enum nxm_api api, const void *address)
{
    unsigned row = row_of(api);
    struct owner owner = {.address = address, .name = row_names[row]};
    if (!nxm_objects_query(owner_look, &owner) || !owner.found) return NULL;
    unsigned slot = slot_register(&owner.object);
    return slot != NO_SLOT && slots[slot].real[row] == address ? variants[slot][row] : NULL;
}
