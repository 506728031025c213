#include "module.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "error.h"
#include "factories.h"
#include "gate.h"
#include "library.h"
#include "lock.h"
#include "log.h"
#include "mechanism_list.h"
#include "mem.h"
#include "module_tenancy.h"
#include "negotiate.h"
#include "status.h"
#include "text.h"

#define LEAVE_YIELDS 1000

struct nxm_module {
    char *path;
    struct nxm_agreement agreement;
    NxmemQueryUnloadReadinessFn query;
    struct nxm_factories factories;
    /* The gate reads them without a lock. Each is raised before the plugin can act on what is counted and lowered when that
     * is over. `allocators` is read first: once it is 0 nobody raises `allocations` or `queued` any more. */
    atomic_uint_fast64_t allocators;
    struct nxm_spread tallies; /* enum nxm_module_tally */
    struct nxm_lock lock; /* tenants */
    struct nxm_tenant *tenants;
    struct nxm_module *next_kept; /* under kept_lock */
    bool kept;
    atomic_uint references; /* see module.h */
    struct nxm_library library;
};

/* Modules that something references for the life of the process; listed so that they stay reachable. */
static struct nxm_lock kept_lock = NXM_LOCK_INIT(NXM_RANK_MODULE);
static struct nxm_module *kept_modules;

static atomic_uint_fast64_t leaked_tables, reclaimed_tables, forced_leaks, unmapped;

/* --- references ----------------------------------------------------------------------------------------- */

static void module_free(struct nxm_module *module)
{
    nxm_lock_clear(&module->lock);
    nxm_mem_free(module->path);
    nxm_mem_free(module);
}

void nxm_module_ref(struct nxm_module *module)
{
    atomic_fetch_add_explicit(&module->references, 1, memory_order_relaxed);
}

/* True when the library was closed. */
static bool module_unref(struct nxm_module *module)
{
    if (atomic_fetch_sub_explicit(&module->references, 1, memory_order_acq_rel) != 1)
        return false;
    nxm_library_close(&module->library);
    atomic_fetch_add_explicit(&unmapped, 1, memory_order_relaxed);
    module_free(module);
    return true;
}

void nxm_module_unref(struct nxm_module *module)
{
    module_unref(module);
}

struct nxm_factory *nxm_module_ref_factory(struct nxm_module *module, size_t mechanism)
{
    struct nxm_factory *factory;

    if (mechanism >= module->factories.count)
        return NULL;
    factory = &module->factories.list[mechanism];
    nxm_factory_ref(factory);
    return factory;
}

void nxm_module_unref_factory(struct nxm_module *module, struct nxm_factory *factory)
{
    if (nxm_factory_unref(factory))
        nxm_module_unref(module);
}

/* The handle's references, while the caller still holds the module. Those that open allocators hold put the
 * release off until they are gone. */
static void drop_factories(struct nxm_module *module)
{
    for (size_t i = 0; i < module->factories.count; i++)
        nxm_module_unref_factory(module, &module->factories.list[i]);
}

static void keep(struct nxm_module *module)
{
    nxm_lock_acquire(&kept_lock);
    if (!module->kept) {
        module->kept = true;
        module->next_kept = kept_modules;
        kept_modules = module;
    }
    nxm_lock_release(&kept_lock);
}

/* One reference, the caller's, is never given back. */
static void leak_forever(struct nxm_module *module)
{
    atomic_fetch_add_explicit(&forced_leaks, 1, memory_order_relaxed);
    keep(module);
}

void nxm_module_leak_table(struct nxm_module *module)
{
    atomic_fetch_add_explicit(&leaked_tables, 1, memory_order_relaxed);
    keep(module);
}

void nxm_module_count_reclaimed_table(void)
{
    atomic_fetch_add_explicit(&reclaimed_tables, 1, memory_order_relaxed);
}

/* --- tallies and tenants ------------------------------------------------------------------------------- */

struct nxm_spread *nxm_module_tallies(struct nxm_module *module)
{
    return &module->tallies;
}

void nxm_module_discount_allocator(struct nxm_module *module)
{
    atomic_fetch_sub_explicit(&module->allocators, 1, memory_order_seq_cst);
}

static bool listed(const struct nxm_module *module, uint64_t mechanism_id)
{
    for (const struct nxm_tenant *tenant = module->tenants; tenant != NULL; tenant = tenant->next) {
        if (tenant->mechanism_id == mechanism_id)
            return true;
    }
    return false;
}

int nxm_module_admit(struct nxm_module *module, struct nxm_tenant *tenant, uint64_t mechanism_id)
{
    bool taken;

    nxm_lock_acquire(&module->lock);
    taken = listed(module, mechanism_id);
    if (!taken) {
        tenant->mechanism_id = mechanism_id;
        tenant->next = module->tenants;
        tenant->link = &module->tenants;
        if (tenant->next != NULL)
            tenant->next->link = &tenant->next;
        module->tenants = tenant;
        atomic_fetch_add_explicit(&module->allocators, 1, memory_order_seq_cst);
    }
    nxm_lock_release(&module->lock);
    return taken ? NXM_EEXIST : NXM_OK;
}

void nxm_module_unlist(struct nxm_module *module, struct nxm_tenant *tenant)
{
    nxm_lock_acquire(&module->lock);
    *tenant->link = tenant->next;
    if (tenant->next != NULL)
        tenant->next->link = tenant->link;
    nxm_lock_release(&module->lock);
}

/* --- loading ------------------------------------------------------------------------------------------- */

struct exports {
    NxmemNegotiateFn negotiate;
    NxmemCreateAllocatorFactoriesFn create;
    NxmemQueryUnloadReadinessFn query;
};

static void *find_export(const struct nxm_library *library, const char *path, const char *name,
                         struct nxm_error *ret_error)
{
    void *symbol = nxm_library_symbol(library, name);

    if (symbol == NULL) {
        nxm_error_set(ret_error, NXM_ESYMBOL, 0,
                      "cannot load plugin %s: it does not export %s (is it an nxmem plugin?)", path, name);
        if (ret_error != NULL)
            ret_error->what = name;
    }
    return symbol;
}

/* All three are mandatory; the first missing one is named. */
static int find_exports(const struct nxm_library *library, const char *path, struct exports *ret_exports,
                        struct nxm_error *ret_error)
{
    ret_exports->negotiate = (NxmemNegotiateFn)find_export(library, path, NXMEM_SYMBOL_NEGOTIATE, ret_error);
    if (ret_exports->negotiate == NULL)
        return NXM_ESYMBOL;
    ret_exports->create =
        (NxmemCreateAllocatorFactoriesFn)find_export(library, path, NXMEM_SYMBOL_CREATE_ALLOCATOR_FACTORIES, ret_error);
    if (ret_exports->create == NULL)
        return NXM_ESYMBOL;
    ret_exports->query =
        (NxmemQueryUnloadReadinessFn)find_export(library, path, NXMEM_SYMBOL_QUERY_UNLOAD_READINESS, ret_error);
    return ret_exports->query == NULL ? NXM_ESYMBOL : NXM_OK;
}

static struct nxm_module *module_new(const char *path)
{
    size_t length = strlen(path) + 1;
    struct nxm_module *module = nxm_mem_new(sizeof *module);

    if (module == NULL)
        return NULL;
    module->path = nxm_mem_new(length);
    if (module->path == NULL) {
        nxm_mem_free(module);
        return NULL;
    }
    memcpy(module->path, path, length);
    nxm_lock_init(&module->lock, NXM_RANK_MODULE);
    atomic_init(&module->references, 1); /* the handle */
    return module;
}

/* Factories were published and refused: the plugin has run, so it is asked before its code goes (24.28). */
static void close_after_refusal(struct nxm_module *module)
{
    struct nxm_gate gate;

    nxm_module_query_gate(module, &gate);
    if (gate.reason == NXM_GATE_OPEN)
        nxm_module_unref(module);
    else
        leak_forever(module);
}

static int enumerate(struct nxm_module *module, const struct exports *exports, struct nxm_error *ret_error)
{
    int result = nxm_factories_take(exports->create, module->agreement.minor, &module->factories, ret_error);

    if (result != NXM_OK) {
        close_after_refusal(module);
        return result;
    }
    for (size_t i = 0; i < module->factories.count; i++)
        nxm_module_ref(module);
    return NXM_OK;
}

/* Takes `library` over on success only. */
static int module_of_library(const char *path, const struct nxm_library *library, const NxmemVersionRange *range,
                             struct exports *ret_exports, struct nxm_module **ret_module, struct nxm_error *ret_error)
{
    struct nxm_agreement agreement;
    struct nxm_module *module;
    int result = find_exports(library, path, ret_exports, ret_error);

    if (result == NXM_OK)
        result = nxm_negotiate(ret_exports->negotiate, range, &agreement, ret_error);
    if (result != NXM_OK)
        return result;
    module = module_new(path);
    if (module == NULL)
        return nxm_error_set(ret_error, NXM_ENOMEM, 0, "cannot load plugin %s: no memory for its records", path);
    module->agreement = agreement;
    module->query = ret_exports->query;
    module->library = *library;
    *ret_module = module;
    return NXM_OK;
}

int nxm_module_load(const char *path, const NxmemVersionRange *range, struct nxm_module **ret_module,
                    struct nxm_error *ret_error)
{
    struct nxm_module *module = NULL;
    struct nxm_library library;
    struct exports exports;
    int result = nxm_library_open(path, &library, ret_error);

    if (result != NXM_OK)
        return result;
    result = module_of_library(path, &library, range, &exports, &module, ret_error);
    if (result != NXM_OK) {
        nxm_library_close(&library); /* nothing was agreed, so there is no question it could answer */
        return result;
    }
    result = enumerate(module, &exports, ret_error);
    if (result != NXM_OK)
        return result;
    *ret_module = module;
    return NXM_OK;
}

/* --- asking --------------------------------------------------------------------------------------------- */

const char *nxm_module_path(const struct nxm_module *module)
{
    return module->path;
}

uint32_t nxm_module_minor(const struct nxm_module *module)
{
    return module->agreement.minor;
}

uint64_t nxm_module_capabilities(const struct nxm_module *module)
{
    return module->agreement.capabilities;
}

void *nxm_module_symbol(struct nxm_module *module, const char *name)
{
    return nxm_library_symbol(&module->library, name);
}

struct nxm_code nxm_module_code(const struct nxm_module *module)
{
    return module->library.code;
}

size_t nxm_module_mechanism_count(const struct nxm_module *module)
{
    return module->factories.count;
}

void nxm_module_mechanism(const struct nxm_module *module, size_t index, struct nxm_mechanism *ret_mechanism)
{
    const struct nxm_factory *factory = &module->factories.list[index];

    *ret_mechanism = (struct nxm_mechanism){
        .name = factory->name,
        .device = factory->vtable.device,
        .capabilities = factory->vtable.capability_flags,
    };
}

/* Of that name (NULL, "": any), for that device (NULL: any). */
static bool serves(const struct nxm_factory *factory, const char *name, const NxmemDeviceId *device)
{
    return (device == NULL ||
            (factory->vtable.device.tier == device->tier && factory->vtable.device.index == device->index)) &&
           (name == NULL || name[0] == '\0' || strcmp(factory->name, name) == 0);
}

static int no_mechanism(const struct nxm_module *module, const char *name, const NxmemDeviceId *device,
                        struct nxm_error *ret_error)
{
    bool any = name == NULL || name[0] == '\0';
    char available[NXM_ERROR_TEXT / 2], where[32] = "";
    struct nxm_text text;

    if (device != NULL) {
        nxm_text_init(&text, where, sizeof where);
        nxm_text_printf(&text, " on %s:%u", nxm_tier_word(device->tier), device->index);
    }
    nxm_text_init(&text, available, sizeof available);
    nxm_mechanism_list(module, &text);
    return nxm_error_set(ret_error, NXM_ENOMECHANISM, 0, "the plugin has no mechanism%s%s%s; it has: %s", any ? "" : " ",
                         any ? "" : name, where, available);
}

static int find_mechanism(const struct nxm_module *module, const char *name, const NxmemDeviceId *device,
                          size_t *ret_index, struct nxm_error *ret_error)
{
    for (size_t i = 0; i < module->factories.count; i++) {
        if (serves(&module->factories.list[i], name, device)) {
            *ret_index = i;
            return NXM_OK;
        }
    }
    return no_mechanism(module, name, device, ret_error);
}

int nxm_module_find_mechanism(const struct nxm_module *module, const char *name, NxmemDeviceId device,
                              size_t *ret_index, struct nxm_error *ret_error)
{
    return find_mechanism(module, name, &device, ret_index, ret_error);
}

int nxm_module_find_named(const struct nxm_module *module, const char *name, size_t *ret_index,
                          struct nxm_error *ret_error)
{
    return find_mechanism(module, name, NULL, ret_index, ret_error);
}

/* --- unloading ------------------------------------------------------------------------------------------- */

static uint64_t count_queued(struct nxm_module *module)
{
    uint64_t queued = 0;

    nxm_lock_acquire(&module->lock);
    for (const struct nxm_tenant *tenant = module->tenants; tenant != NULL; tenant = tenant->next)
        queued += nxm_spread_count(tenant->sums, NXM_SUM_QUEUED);
    nxm_lock_release(&module->lock);
    return queued;
}

void nxm_module_query_gate(struct nxm_module *module, struct nxm_gate *ret_gate)
{
    struct nxm_tallies host;

    host.allocators = atomic_load_explicit(&module->allocators, memory_order_seq_cst); /* first: see there */
    host.allocations = nxm_spread_count(&module->tallies, NXM_TALLY_ALLOCATIONS);
    host.queued = count_queued(module);
    host.inside = nxm_spread_sum(&module->tallies, NXM_TALLY_INSIDE); /* last: the last thing of the module that a callback touches */
    nxm_gate_ask(module->query, &host, ret_gate);
}

/* A callback that has counted down what it ended is about to leave: worth a moment, not more, for it may be our caller. */
void nxm_module_let_callbacks_leave(const struct nxm_module *module)
{
    for (int i = 0; i < LEAVE_YIELDS && nxm_spread_sum(&module->tallies, NXM_TALLY_INSIDE) != 0; i++)
        sched_yield();
}

int nxm_module_unload(struct nxm_module *module, struct nxm_gate *ret_gate)
{
    nxm_module_let_callbacks_leave(module);
    nxm_module_query_gate(module, ret_gate);
    if (ret_gate->reason != NXM_GATE_OPEN)
        return NXM_EBUSY;
    ret_gate->handle_kept = false;
    drop_factories(module);
    if (module_unref(module))
        return NXM_OK;
    ret_gate->reason = NXM_GATE_REFERENCED;
    return NXM_EBUSY;
}

void nxm_module_drop(struct nxm_module *module)
{
    struct nxm_gate gate;

    if (module == NULL)
        return;
    nxm_module_let_callbacks_leave(module);
    nxm_module_query_gate(module, &gate);
    if (gate.reason != NXM_GATE_OPEN)
        leak_forever(module); /* the handle's reference is never given back */
    drop_factories(module);
    if (gate.reason == NXM_GATE_OPEN)
        nxm_module_unref(module);
}

void nxm_module_counters(struct nxm_module_counters *ret_counters)
{
    *ret_counters = (struct nxm_module_counters){
        .leaked_callback_tables = atomic_load_explicit(&leaked_tables, memory_order_acquire),
        .forced_module_leaks = atomic_load_explicit(&forced_leaks, memory_order_acquire),
        .modules_unmapped = atomic_load_explicit(&unmapped, memory_order_acquire),
        .reclaimed_callback_tables = atomic_load_explicit(&reclaimed_tables, memory_order_acquire),
    };
}
