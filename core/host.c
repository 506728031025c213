/* libnxmem_host's public face (include/nxmem_host.h), but for allocators: errors, plugins, provider contexts. What it does is
 * done by the rest of core, as for the preload library; a handle is one of core's objects under a public name. */
#include "host.h"

#include <string.h>

#include "error.h"
#include "log.h"
#include "module.h"
#include "status.h"
#include "text.h"

static struct nxm_module *module_of(const nxmem_host_plugin *plugin)
{
    return (struct nxm_module *)(uintptr_t)plugin;
}

struct nxm_provider *nxm_host_provider(nxmem_host_provider *provider)
{
    return (struct nxm_provider *)provider;
}

/* --- structs that may grow ---------------------------------------------------------------------------------- */

static uint32_t size_of(const void *sized)
{
    uint32_t size;

    memcpy(&size, sized, sizeof size);
    return size;
}

bool nxm_host_is_whole(const void *sized, uint32_t first)
{
    return sized != NULL && size_of(sized) >= first;
}

void nxm_host_give(void *ret, const void *value, uint32_t own, uint32_t first)
{
    uint32_t size;

    if (!nxm_host_is_whole(ret, first))
        return;
    size = size_of(ret);
    memcpy((char *)ret + sizeof size, (const char *)value + sizeof size, (size < own ? size : own) - sizeof size);
}

#define STRUCTS(X)                                                                                            \
    X(error, ERROR) X(mechanism, MECHANISM) X(block, BLOCK) X(release_result, RELEASE_RESULT) X(options, OPTIONS) \
    X(statistics, STATISTICS) X(prefix_facts, PREFIX_FACTS) X(view, VIEW) X(gate, GATE) X(counters, COUNTERS)
#define NEVER_SHRINKS(name, NAME) _Static_assert(sizeof(nxmem_host_##name) >= NXM_FIRST_##NAME, #name);
STRUCTS(NEVER_SHRINKS)

/* --- errors ------------------------------------------------------------------------------------------------- */

static const struct {
    enum nxmem_host_class code;
    const char *name;
} classes[] = { /* by the negative of enum nxm_result */
    [-NXM_OK] = { NXMEM_HOST_OK, "ok" },
    [-NXM_ENOMEM] = { NXMEM_HOST_MEMORY, "memory" },
    [-NXM_EINVAL] = { NXMEM_HOST_ARGUMENT, "argument" },
    [-NXM_ENOENT] = { NXMEM_HOST_UNKNOWN, "unknown" },
    [-NXM_EEXIST] = { NXMEM_HOST_DUPLICATE, "duplicate" },
    [-NXM_EBUSY] = { NXMEM_HOST_BUSY, "busy" },
    [-NXM_EOPEN] = { NXMEM_HOST_CANNOT_OPEN, "cannot open" },
    [-NXM_ESYMBOL] = { NXMEM_HOST_NO_SYMBOL, "no symbol" },
    [-NXM_ENEGOTIATE] = { NXMEM_HOST_NEGOTIATION, "negotiation" },
    [-NXM_ECALL] = { NXMEM_HOST_CALL, "call" },
    [-NXM_ECONTRACT] = { NXMEM_HOST_CONTRACT, "contract" },
    [-NXM_ENOMECHANISM] = { NXMEM_HOST_NO_MECHANISM, "no mechanism" },
    [-NXM_EUNSUPPORTED] = { NXMEM_HOST_UNSUPPORTED, "unsupported" },
    [-NXM_ERETIRED] = { NXMEM_HOST_RETIRED, "retired" },
};

const char *nxmem_host_class_name(uint32_t code)
{
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++) {
        if (classes[i].code == code)
            return classes[i].name;
    }
    return "unknown class";
}

void nxmem_host_say_less(int less)
{
    nxm_log_set_level(less ? NXM_LOG_NOTHING : NXM_LOG_WARNING);
}

static uint32_t advice_of(uint32_t status)
{
    switch (nxm_status_bucket(status)) {
    case NXM_BUCKET_CAPACITY:
        return NXMEM_HOST_ADVICE_CAPACITY;
    case NXM_BUCKET_CHOICE:
        return NXMEM_HOST_ADVICE_CHOICE;
    case NXM_BUCKET_ROUTING:
        return NXMEM_HOST_ADVICE_ROUTING;
    case NXM_BUCKET_PLUGIN:
    default:
        return NXMEM_HOST_ADVICE_NONE;
    }
}

_Static_assert(sizeof((nxmem_host_error *)0)->text == NXM_ERROR_TEXT, "a text of core's fits");

/* The one place where a result leaves as a class. */
int nxm_host_answer(int result, const struct nxm_error *found, nxmem_host_error *error)
{
    int code = (int)classes[-result].code;
    nxmem_host_error out = { .code = (uint32_t)code };

    if (result == NXM_OK)
        return code;
    out.status = found->status;
    out.advice = advice_of(found->status);
    strncpy(out.what, found->what == NULL ? "" : found->what, sizeof out.what - 1);
    memcpy(out.text, found->text, sizeof out.text);
    nxm_host_give(error, &out, sizeof out, NXM_FIRST_ERROR);
    return code;
}

int nxm_host_refuse(nxmem_host_error *error, const char *why)
{
    struct nxm_error found;

    return nxm_host_answer(nxm_error_set(&found, NXM_EINVAL, 0, "%s", why), &found, error);
}

/* --- plugins ------------------------------------------------------------------------------------------------ */

int nxmem_host_load(const char *path, const NxmemVersionRange *range, nxmem_host_plugin **ret_plugin,
                    nxmem_host_error *error)
{
    struct nxm_module *module;
    struct nxm_error found;
    int result;

    if (path == NULL || ret_plugin == NULL)
        return nxm_host_refuse(error, "loading needs a path and a place for the handle");
    if (range != NULL && (range->major_min > range->major_max || range->minor_min > range->minor_max))
        return nxm_host_refuse(error, "the range ends before it starts: it holds no version");
    result = nxm_module_load(path, range, &module, &found);
    if (result == NXM_OK)
        *ret_plugin = (nxmem_host_plugin *)module;
    return nxm_host_answer(result, &found, error);
}

const char *nxmem_host_path(const nxmem_host_plugin *plugin)
{
    return nxm_module_path(module_of(plugin));
}

uint32_t nxmem_host_minor(const nxmem_host_plugin *plugin)
{
    return nxm_module_minor(module_of(plugin));
}

uint64_t nxmem_host_capabilities(const nxmem_host_plugin *plugin)
{
    return nxm_module_capabilities(module_of(plugin));
}

void *nxmem_host_symbol(nxmem_host_plugin *plugin, const char *name)
{
    return name == NULL ? NULL : nxm_module_symbol(module_of(plugin), name);
}

size_t nxmem_host_mechanism_count(const nxmem_host_plugin *plugin)
{
    return nxm_module_mechanism_count(module_of(plugin));
}

int nxmem_host_mechanism_at(const nxmem_host_plugin *plugin, size_t index, nxmem_host_mechanism *ret_mechanism)
{
    struct nxm_mechanism mechanism;
    nxmem_host_mechanism out = { 0 };

    if (index >= nxm_module_mechanism_count(module_of(plugin)) || !nxm_host_is_whole(ret_mechanism, NXM_FIRST_MECHANISM))
        return NXMEM_HOST_ARGUMENT;
    nxm_module_mechanism(module_of(plugin), index, &mechanism);
    out.device = mechanism.device;
    out.capabilities = mechanism.capabilities;
    out.name = mechanism.name;
    nxm_host_give(ret_mechanism, &out, sizeof out, NXM_FIRST_MECHANISM);
    return NXMEM_HOST_OK;
}

int nxmem_host_find(const nxmem_host_plugin *plugin, const char *name, const NxmemDeviceId *device, size_t *ret_index,
                    nxmem_host_error *error)
{
    struct nxm_error found;
    int result;

    if (ret_index == NULL)
        return nxm_host_refuse(error, "finding a mechanism needs a place for its index");
    result = device == NULL ? nxm_module_find_named(module_of(plugin), name, ret_index, &found)
                            : nxm_module_find_mechanism(module_of(plugin), name, *device, ret_index, &found);
    return nxm_host_answer(result, &found, error);
}

/* --- provider contexts -------------------------------------------------------------------------------------- */

int nxmem_host_provider_new(nxmem_host_provider **ret_provider, nxmem_host_error *error)
{
    struct nxm_provider *provider = NULL;
    struct nxm_error found;

    if (ret_provider == NULL)
        return nxm_host_refuse(error, "a new provider needs a place for its handle");
    if (nxm_provider_new(&provider) != NXM_OK)
        return nxm_host_answer(nxm_error_set(&found, NXM_ENOMEM, 0, "no memory for a provider context"), &found, error);
    *ret_provider = (nxmem_host_provider *)provider;
    return NXMEM_HOST_OK;
}

uint64_t nxmem_host_provider_pins(nxmem_host_provider *provider)
{
    return nxm_provider_pins(nxm_host_provider(provider));
}

void nxmem_host_provider_retire(nxmem_host_provider *provider)
{
    nxm_provider_retire(nxm_host_provider(provider));
}

void nxmem_host_provider_wait(nxmem_host_provider *provider)
{
    nxm_provider_retire(nxm_host_provider(provider));
    nxm_provider_wait(nxm_host_provider(provider));
}

void nxmem_host_provider_free(nxmem_host_provider *provider)
{
    nxm_provider_unref(nxm_host_provider(provider));
}

/* --- the end of a plugin ------------------------------------------------------------------------------------ */

static void give_gate(const struct nxm_gate *gate, nxmem_host_gate *ret_gate)
{
    static const uint32_t reasons[] = {
        [NXM_GATE_OPEN] = NXMEM_HOST_GATE_OPEN,
        [NXM_GATE_QUERY_FAILED] = NXMEM_HOST_GATE_UNANSWERED,
        [NXM_GATE_HOST] = NXMEM_HOST_GATE_HOST,
        [NXM_GATE_PLUGIN] = NXMEM_HOST_GATE_PLUGIN,
        [NXM_GATE_REFERENCED] = NXMEM_HOST_GATE_REFERENCED,
    };
    nxmem_host_gate out = {
        .reason = reasons[gate->reason],
        .retry = gate->handle_kept,
        .allocators = gate->host.allocators,
        .allocations = gate->host.allocations,
        .queued = gate->host.queued,
        .inside = gate->host.inside,
        .plugin_allocators = gate->plugin.live_allocators,
        .plugin_allocations = gate->plugin.live_allocations,
        .plugin_views = gate->plugin.live_views,
        .plugin_capabilities = gate->plugin.live_capabilities,
        .plugin_queued = gate->plugin.queued_releases,
    };

    nxm_host_give(ret_gate, &out, sizeof out, NXM_FIRST_GATE);
}

void nxmem_host_ask(nxmem_host_plugin *plugin, nxmem_host_gate *ret_gate)
{
    struct nxm_gate gate;

    nxm_module_query_gate(module_of(plugin), &gate);
    give_gate(&gate, ret_gate);
}

/* What is live, on one side of the gate. */
struct amount {
    uint64_t count;
    const char *noun;
};

static void list_amounts(const struct amount *amounts, size_t count, char *words, size_t capacity)
{
    struct nxm_text text;

    nxm_text_init(&text, words, capacity);
    for (size_t i = 0; i < count; i++) {
        nxm_text_string(&text, i == 0 ? "" : ", ");
        nxm_text_count(&text, amounts[i].count, amounts[i].noun);
    }
}

static void explain_counts(const struct nxm_tallies *host, const NxmemUnloadReport *plugin, struct nxm_error *ret_found)
{
    const struct amount of_host[] = { { host->allocators, "allocator" }, { host->allocations, "allocation" },
                                      { host->queued, "queued release" }, { host->inside, "running callback" } };
    const struct amount of_plugin[] = { { plugin->live_allocators, "allocator" }, { plugin->live_allocations, "allocation" },
                                        { plugin->live_views, "view" }, { plugin->live_capabilities, "capability record" },
                                        { plugin->queued_releases, "queued release" } };
    char in_host[NXM_ERROR_TEXT / 2], in_plugin[NXM_ERROR_TEXT / 2];

    list_amounts(of_host, sizeof of_host / sizeof of_host[0], in_host, sizeof in_host);
    list_amounts(of_plugin, sizeof of_plugin / sizeof of_plugin[0], in_plugin, sizeof in_plugin);
    nxm_error_set(ret_found, NXM_EBUSY, 0, "not unloaded: the host has %s; the plugin reports %s", in_host, in_plugin);
}

static int explain(const struct nxm_gate *gate, nxmem_host_error *error)
{
    struct nxm_error found;

    switch (gate->reason) {
    case NXM_GATE_QUERY_FAILED:
        nxm_error_set(&found, NXM_EBUSY, 0, "not unloaded: the plugin could not report unload readiness");
        break;
    case NXM_GATE_REFERENCED:
        nxm_error_set(&found, NXM_EBUSY, 0, "not unloaded, and it stays mapped: references beyond the handle pin the module");
        break;
    default:
        explain_counts(&gate->host, &gate->plugin, &found);
        break;
    }
    return nxm_host_answer(NXM_EBUSY, &found, error);
}

int nxmem_host_unload(nxmem_host_plugin **plugin, nxmem_host_gate *ret_gate, nxmem_host_error *error)
{
    struct nxm_gate gate;
    int result;

    if (plugin == NULL || *plugin == NULL)
        return nxm_host_refuse(error, "there is no plugin to unload");
    result = nxm_module_unload(module_of(*plugin), &gate);
    if (result == NXM_OK || !gate.handle_kept)
        *plugin = NULL;
    give_gate(&gate, ret_gate);
    if (result == NXM_OK)
        return NXMEM_HOST_OK;
    return explain(&gate, error);
}

void nxmem_host_drop(nxmem_host_plugin *plugin)
{
    nxm_module_drop(module_of(plugin));
}

nxmem_host_code *nxmem_host_keep_code(nxmem_host_plugin *plugin)
{
    nxm_module_ref(module_of(plugin));
    return (nxmem_host_code *)plugin;
}

void nxmem_host_drop_code(nxmem_host_code *code)
{
    if (code != NULL)
        nxm_module_unref((struct nxm_module *)code);
}

void nxmem_host_counters_now(nxmem_host_counters *ret_counters)
{
    struct nxm_module_counters counters;
    nxmem_host_counters out = { 0 };

    nxm_module_counters(&counters);
    out.leaked_tables = counters.leaked_callback_tables;
    out.forced_leaks = counters.forced_module_leaks;
    out.modules_unmapped = counters.modules_unmapped;
    out.reclaimed_tables = counters.reclaimed_callback_tables;
    nxm_host_give(ret_counters, &out, sizeof out, NXM_FIRST_COUNTERS);
}
