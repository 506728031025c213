#include "route.h"

#include <dlfcn.h>

#include "hooks.h"
#include "objects.h"
#include "real.h"
#include "route_libc.h"
#include "route_names.h"
#include "runtime.h"

/* --- the names ------------------------------------------------------------------------------------- */

struct name {
    const char *text;
    void *hook;
    uint8_t length;
    bool runtime;
};

static const struct name names[NXM_API_COUNT] = {
#define NAME(symbol, runtime_) [NXM_API_##symbol] = {#symbol, (void *)hook_##symbol, sizeof #symbol - 1, runtime_},
#define DRIVER(symbol, like, class_) NAME(symbol, false)
#define RUNTIME(symbol, like, class_) NAME(symbol, true)
#include "cuda_api.def"
};

static enum nxm_api name_find(const char *text)
{
    size_t length = nxm_route_length(text);
    for (unsigned api = 1; api < NXM_API_COUNT; ++api)
        if (names[api].length == length && nxm_route_equal(names[api].text, text)) return (enum nxm_api)api;
    return NXM_API_UNKNOWN;
}

/* The substitute for the function at `address`, known to be reached under the name of `api`; NULL when it is
 * not the function that our hook would call. */
static void *substitute_for(enum nxm_api api, void *address)
{
    if (names[api].runtime) return nxm_runtime_variant(api, address);
    return nxm_real_is(api, address) ? names[api].hook : NULL;
}

/* --- one lookup of one of our names ---------------------------------------------------------------- */

struct lookup {
    void *handle;
    const char *name;
    const char *version; /* NULL: dlsym */
    const void *caller;
    enum nxm_api api;
};

static struct nxm_decision jump(void *handle)
{
    return (struct nxm_decision){NULL, handle};
}

static struct nxm_decision answer(void *substitute, void *otherwise)
{
    return (struct nxm_decision){substitute, otherwise};
}

/* Our export would be found where natively nothing is: let the loader fail in its own words. */
static struct nxm_decision fail(const struct lookup *lookup)
{
    void *barren = nxm_route_barren_handle();
    return jump(barren ? barren : lookup->handle);
}

/* What the C library answers when the shim itself asks. */
static void *ask(const struct lookup *lookup, void *handle)
{
    if (!lookup->version) return nxm_next_dlsym(handle, lookup->name);
    return nxm_next_dlvsym ? nxm_next_dlvsym(handle, lookup->name, lookup->version) : NULL;
}

/* What the list of loaded objects says about the caller and the name. */
struct scene {
    const struct lookup *lookup;
    void *first_global;     /* in, may be NULL: the definition behind the shim in the global scope */
    void *next;             /* first definition after the caller that the caller's scope reaches */
    bool reached;           /* some definition is in the caller's own scope */
    bool foreign_caller;    /* the driver or the shim asks */
    bool startup_caller;
    bool shim_is_later;     /* RTLD_NEXT of this caller passes the shim */
    bool global_is_later;
};

static bool is_drivers_own(const struct nxm_object *object)
{
    const char *name = object->elf.soname ? object->elf.soname : nxm_route_basename(object->name);
    return nxm_route_starts(name, "libcuda.so") || nxm_route_starts(name, "libnvidia-");
}

/* RTLD_NEXT means the order of the scope that the caller was loaded into. For an object of start-up that is the
 * load order. One opened later leads its own scope, or stands in that of an object that needs it: where more
 * than one definition is in sight there, only its own needs say which comes first. */
static void scene_find_next(struct scene *scene, const struct nxm_objects *objects, size_t caller)
{
    const char *name = scene->lookup->name;
    size_t next = NXM_NO_OBJECT;
    unsigned others = 0;
    for (size_t i = 0; (i = nxm_objects_definer(objects, name, i)) != NXM_NO_OBJECT; ++i) {
        if (!nxm_objects_reach(objects, caller, i)) continue;
        scene->reached = true;
        if (i == caller || (scene->startup_caller && (i < caller || others))) continue;
        next = i;
        ++others;
    }
    if (others > 1) next = nxm_objects_needed_definer(objects, caller, name, 0);
    if (next != NXM_NO_OBJECT && next != caller) scene->next = nxm_elf_define(&objects->list[next].elf, name);
}

static void scene_look(void *argument, const struct nxm_objects *objects)
{
    struct scene *scene = argument;
    size_t caller = nxm_objects_owner(objects, scene->lookup->caller);
    if (caller == NXM_NO_OBJECT) return;
    scene->foreign_caller = nxm_object_is_shim(&objects->list[caller]) || is_drivers_own(&objects->list[caller]);
    if (scene->foreign_caller) return;
    if (scene->lookup->handle != RTLD_NEXT && scene->lookup->handle != RTLD_DEFAULT) return; /* scopes play no part */
    for (size_t i = caller; i < objects->count; ++i) {
        if (nxm_object_is_shim(&objects->list[i])) scene->shim_is_later = true;
        if (objects->list[i].identity == nxm_route_startup_end) scene->startup_caller = true;
    }
    scene_find_next(scene, objects, caller);
    size_t global = scene->first_global ? nxm_objects_owner(objects, scene->first_global) : NXM_NO_OBJECT;
    scene->global_is_later = global != NXM_NO_OBJECT && global > caller;
}

static bool scene_fill(struct scene *scene)
{
    return nxm_objects_query(scene_look, scene) && !scene->foreign_caller;
}

/* RTLD_DEFAULT, and the handle of the whole program: our export comes first in the global scope by itself.
 * It may stand only for a definition that the caller would have found. */
static struct nxm_decision decide_global(const struct lookup *lookup, const struct scene *scene)
{
    if (!nxm_route_startup_end) { /* opened late: the export is behind the real one, if it is there at all */
        void *found = ask(lookup, lookup->handle);
        return answer(found ? substitute_for(lookup->api, found) : NULL, lookup->handle);
    }
    if (ask(lookup, RTLD_NEXT)) return jump(lookup->handle);
    if (lookup->handle == RTLD_DEFAULT && scene->reached) return jump(lookup->handle);
    if (ask(lookup, lookup->handle) != names[lookup->api].hook) return jump(lookup->handle);
    return fail(lookup);
}

/* Our own questions may leave an error in dlerror. Every path from a failed one ends in a jump, and the
 * call that is jumped to starts it afresh. */
static struct nxm_decision decide_next(const struct lookup *lookup, struct scene *scene)
{
    if (scene->next) return answer(substitute_for(lookup->api, scene->next), lookup->handle);
    if (scene->startup_caller && (scene->first_global = ask(lookup, RTLD_NEXT)) && scene_fill(scene) &&
        scene->global_is_later)
        return answer(substitute_for(lookup->api, scene->first_global), lookup->handle);
    return scene->shim_is_later && !scene->first_global ? fail(lookup) : jump(lookup->handle);
}

/* With an ordinary handle the C library ignores the caller, so it may be asked from here. */
static struct nxm_decision decide_handle(const struct lookup *lookup, const struct scene *scene)
{
    void *found = ask(lookup, lookup->handle);
    if (!found) return jump(lookup->handle); /* asked again, so that dlerror is the caller's */
    if (found == names[lookup->api].hook) return decide_global(lookup, scene);
    return answer(substitute_for(lookup->api, found), lookup->handle);
}

/* A plugin's lookups are treated like a program's: the hooks know a nested call by their thread's state, and
 * that is how a plugin's own ranges and its failing driver calls are seen. */
static struct nxm_decision decide(const struct lookup *lookup)
{
    struct scene scene = {.lookup = lookup};
    if (!scene_fill(&scene)) return jump(lookup->handle);
    if (lookup->handle == RTLD_NEXT) return decide_next(lookup, &scene);
    if (lookup->handle == RTLD_DEFAULT) return decide_global(lookup, &scene);
    return decide_handle(lookup, &scene);
}

struct nxm_decision nxm_route_dlsym(void *handle, const char *name, const char *version, const void *caller)
{
    if (!nxm_next_dlsym) nxm_route_resolve();
    if (!name || name[0] != 'c' || name[1] != 'u' || !nxm_next_dlsym) return jump(handle);
    struct lookup lookup = {handle, name, version, caller, name_find(name)};
    if (lookup.api == NXM_API_UNKNOWN) {
        nxm_names_asked(name);
        return jump(handle);
    }
    struct nxm_decision decision = decide(&lookup);
    if (decision.substitute || handle == RTLD_DEFAULT) nxm_names_hooked(lookup.api);
    return decision;
}

/* --- dlopen ---------------------------------------------------------------------------------------- */

int nxm_route_dlopen(const char *file, int flags)
{
    if (!nxm_next_dlopen) nxm_route_resolve();
    if (file) nxm_runtime_forget_callers(); /* a new object may take the place of one that went */
    if (file && (flags & RTLD_DEEPBIND)) {
        if (nxm_route_keep_deepbind()) nxm_names_uncovered(file, false);
        else flags &= ~RTLD_DEEPBIND;
    }
    return flags;
}

void nxm_route_dlmopen(long space, const char *file)
{
    if (!nxm_next_dlmopen) nxm_route_resolve();
    if (file && space != LM_ID_BASE) nxm_names_uncovered(file, true);
}

/* --- cuGetProcAddress ------------------------------------------------------------------------------ */

enum stream_form { PLAIN = 1, LEGACY, THREAD };

struct proc {
    const char *name;
    int since, until; /* until 0: the newest form that our headers know */
    enum stream_form form;
};

static const struct proc procs[] = {
#define PROC(symbol, name, since, until, form) [NXM_API_##symbol] = {#name, since, until, form},
#include "proc_address.def"
};

enum { /* one PROC row for each DRIVER row: the two lists declare the same names, once each */
#define PROC(symbol, name, since, until, form) HAS_PROC_##symbol,
#include "proc_address.def"
    PROC_COUNT
};
#define DRIVER(symbol, like, class_) _Static_assert(HAS_PROC_##symbol < PROC_COUNT, #symbol);
#include "cuda_api.def"

static bool form_matches(enum stream_form form, uint64_t flags)
{
    switch (flags) {
    case CU_GET_PROC_ADDRESS_DEFAULT:
    case CU_GET_PROC_ADDRESS_LEGACY_STREAM: return form != THREAD;
    case CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM: return form != LEGACY;
    default: return false;
    }
}

/* The row that the typedef headers give for a request; none for versions newer than those headers. */
static enum nxm_api proc_by_request(const char *name, int version, uint64_t flags)
{
    if (version > CUDA_VERSION) return NXM_API_UNKNOWN;
    for (unsigned api = 1; api < sizeof procs / sizeof procs[0]; ++api) {
        const struct proc *proc = &procs[api];
        if (version >= proc->since && (!proc->until || version < proc->until) && form_matches(proc->form, flags) &&
            nxm_route_equal(proc->name, name))
            return (enum nxm_api)api;
    }
    return NXM_API_UNKNOWN;
}

struct naming {
    const void *address;
    enum nxm_api api; /* the row whose symbol stands at the address */
    bool exported;    /* some symbol stands there */
};

static void naming_look(void *argument, const struct nxm_objects *objects)
{
    struct naming *naming = argument;
    size_t owner = nxm_objects_owner(objects, naming->address);
    if (owner == NXM_NO_OBJECT || !objects->list[owner].elf.symbols) return;
    const struct nxm_elf *elf = &objects->list[owner].elf;
    if (nxm_object_is_shim(&objects->list[owner])) {
        naming->exported = true; /* a hook already: nothing to do */
        return;
    }
    for (unsigned api = 1; api < sizeof procs / sizeof procs[0] && !naming->api; ++api)
        if (nxm_elf_define(elf, names[api].text) == naming->address) naming->api = (enum nxm_api)api;
    naming->exported = naming->api || nxm_elf_name_at(elf, naming->address);
}

static enum nxm_api proc_find(const void *real, const char *name, int version, uint64_t flags)
{
    for (unsigned api = 1; api < sizeof procs / sizeof procs[0]; ++api)
        if (nxm_real_is((enum nxm_api)api, real)) return (enum nxm_api)api;
    enum nxm_api requested = name ? proc_by_request(name, version, flags) : NXM_API_UNKNOWN;
    if (!requested) return NXM_API_UNKNOWN; /* not one of our names: most of a runtime's hundreds */
    struct naming naming = {.address = real};
    if (!nxm_objects_query(naming_look, &naming)) return NXM_API_UNKNOWN;
    return naming.exported ? naming.api : requested;
}

void *nxm_route_proc(void *real, const char *name, int version, uint64_t flags)
{
    if (!nxm_real_ready()) return real;
    enum nxm_api api = proc_find(real, name, version, flags);
    if (api) nxm_names_hooked(api);
    else nxm_names_given(real, name, version);
    return api ? names[api].hook : real;
}
