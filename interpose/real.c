#include "real.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "objects.h"
#include "route_libc.h"

struct nxm_real nxm_real;

static const char *const field_names[] = {
#define DRIVER(symbol, like, class_) #symbol,
#include "cuda_api.def"
#define FIELD_NAME(symbol) #symbol,
    NXM_REAL_EXTRA(FIELD_NAME)
#undef FIELD_NAME
};
enum { FIELDS = sizeof field_names / sizeof field_names[0] };

/* The table is read by API number too: driver rows come first, in one sequence, before the extras. */
_Static_assert(sizeof(struct nxm_real) == FIELDS * sizeof(void *), "one pointer a field");
#define DRIVER(symbol, like, class_) \
    _Static_assert(offsetof(struct nxm_real, symbol) == (NXM_API_##symbol - 1) * sizeof(void *), #symbol);
#include "cuda_api.def"

enum { EMPTY, FILLING };
unsigned nxm_real_state;

/* --- which driver ---------------------------------------------------------------------------------- */

struct search {
    const void *global; /* in: what the program's own scope answers; decides between several */
    const void *answer; /* in: an address that some object just gave for a driver's name */
    struct nxm_object driver;
    unsigned candidates;
};

static bool is_driver(const struct nxm_object *object)
{
    return object->elf.symbols && nxm_elf_define(&object->elf, "cuInit") &&
           nxm_elf_define(&object->elf, "cuMemAlloc_v2");
}

static unsigned preference(const struct search *search, const struct nxm_object *object, size_t index,
                           const struct nxm_objects *objects)
{
    if (search->global && nxm_objects_owner(objects, search->global) == index) return 4;
    if (search->answer && nxm_objects_owner(objects, search->answer) == index) return 3;
    return nxm_object_is(object, "libcuda.so.1") ? 2 : 1;
}

static void search_look(void *argument, const struct nxm_objects *objects)
{
    struct search *search = argument;
    unsigned best = 0;
    for (size_t i = nxm_objects_behind_shim(objects);
         (i = nxm_objects_definer(objects, "cuInit", i)) != NXM_NO_OBJECT; ++i) {
        if (!is_driver(&objects->list[i])) continue;
        ++search->candidates;
        unsigned rank = preference(search, &objects->list[i], i, objects);
        if (rank <= best) continue;
        best = rank;
        search->driver = objects->list[i];
    }
}

static bool driver_find(const void *answer, struct nxm_object *ret_driver)
{
    struct search search = {.answer = answer};
    if (!nxm_objects_query(search_look, &search) || !search.candidates) return false;
    if (search.candidates > 1) {
        search.global = nxm_next_dlsym(RTLD_NEXT, "cuInit");
        if (!nxm_objects_query(search_look, &search)) return false;
    }
    *ret_driver = search.driver;
    return true;
}

/* --- the table ------------------------------------------------------------------------------------- */

/* A name that the driver lacks is not asked for: a failing dlsym would show in the program's dlerror. */
static void fields_fill(const struct nxm_object *driver, void *fields[FIELDS])
{
    void *handle = nxm_route_pin(driver->name);
    for (unsigned i = 0; i < FIELDS; ++i) {
        void *defined = nxm_elf_define(&driver->elf, field_names[i]);
        fields[i] = defined && handle ? nxm_next_dlsym(handle, field_names[i]) : defined;
    }
}

/* Threads race here with the loader's lock free; the first to have filled its copy publishes it. */
static void fields_publish(void *fields[FIELDS])
{
    unsigned expected = EMPTY;
    if (__atomic_compare_exchange_n(&nxm_real_state, &expected, FILLING, false, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
        memcpy(&nxm_real, fields, sizeof nxm_real);
        __atomic_store_n(&nxm_real_state, NXM_REAL_READY, __ATOMIC_RELEASE);
    }
    while (__atomic_load_n(&nxm_real_state, __ATOMIC_ACQUIRE) != NXM_REAL_READY) /* as long as that copy takes */
        nxm_spin();
}

static bool ready_with(const void *answer)
{
    if (__atomic_load_n(&nxm_real_state, __ATOMIC_ACQUIRE) == NXM_REAL_READY) return true;
    if (!nxm_next_dlsym) nxm_route_resolve();
    struct nxm_object driver;
    if (!nxm_next_dlsym || !driver_find(answer, &driver)) return false;
    void *fields[FIELDS];
    fields_fill(&driver, fields);
    fields_publish(fields);
    return true;
}

bool nxm_real_find(void)
{
    return ready_with(NULL);
}

bool nxm_real_is(enum nxm_api api, const void *address)
{
    if (!address || !ready_with(address)) return false;
    void *real;
    memcpy(&real, (const char *)&nxm_real + (api - 1) * sizeof real, sizeof real);
    return real == address;
}
