/* Loading, the gate, and the two ways to give a handle up. */
#include <stddef.h>
#include <string.h>

#include "model.h"
#include "operations.h"

static void unmap(unsigned modules_before)
{
    model.unmapped += modules_before == 1 && model_mapped() == 0;
}

/* --- load ------------------------------------------------------------------------------------------------------------------ */

/* What was published is given back; the plugin has run, so it is asked before its code goes. */
static void refused_after_negotiation(uint64_t published)
{
    unsigned before = model_mapped() + 1;

    model.factory_releases += published;
    if (model_plugin_total() == 0) {
        model.counters.modules_unmapped++;
        unmap(before);
        return;
    }
    model.counters.forced_module_leaks++;
    model.modules[model.module_count++] = (struct model_module){ .pinned = true };
}

static void accept(struct nxm_module *module, bool minor_0)
{
    struct model_module *accepted = &model.modules[model.module_count++];

    *accepted = (struct model_module){ .module = module, .handle = true, .minor_0 = minor_0 };
    for (unsigned i = 0; i < model.factories; i++)
        accepted->factory_references[i] = 1;
    EXPECT(nxm_module_mechanism_count(module) == model.factories);
    EXPECT(nxm_module_minor(module) == (minor_0 ? 0 : 1));
}

static void load_at(bool minor_0)
{
    NxmemVersionRange old = { 1, 1, 0, 0 };
    struct nxm_module *module = NULL;
    bool refuses = fake.negotiate_status != 0 || fake.agreed_minor != 0;
    bool breaks = fake.create_status != 0 || fake.break_second_factory;
    unsigned before = model_mapped() + 1;
    int result;

    if (fake.create_status != NXMEM_STATUS_OUT_OF_MEMORY) /* else it could be either's */
        starve();
    result = nxm_module_load(UNIT_DIR "/plugins/fake.so", minor_0 ? &old : NULL, &module, NULL);
    feed();
    if (refuses) {
        EXPECT(result == NXM_ENEGOTIATE);
        unmap(before);
    } else if (result == NXM_ENOMEM && model.starved) {
        unmap(before);
    } else if (breaks) {
        EXPECT(result == (fake.create_status == NXMEM_STATUS_OUT_OF_MEMORY ? NXM_ENOMEM : NXM_ECALL));
        refused_after_negotiation(fake.create_status != 0 ? 0 : model.factories);
    } else {
        EXPECT(result == NXM_OK);
        if (model_is_sound())
            accept(module, minor_0);
    }
}

void operation_load(void)
{
    struct choices *choices = model.choices;

    if (model_handles() >= 2 || model.module_count == MODEL_MODULES)
        return;
    fake.negotiate_status = one_in(choices, 16) ? random_status() : 0;
    fake.agreed_minor = one_in(choices, 16) ? 3 : 0; /* says minor 2, which nobody speaks */
    fake.create_status = one_in(choices, 16) ? random_status() : 0;
    fake.break_second_factory = model.factories > 1 && one_in(choices, 16);
    load_at(one_in(choices, 4));
    fake.negotiate_status = fake.agreed_minor = fake.create_status = 0;
    fake.break_second_factory = false;
}

void operation_load_soundly(void)
{
    load_at(one_in(model.choices, 4));
}

/* --- the gate ---------------------------------------------------------------------------------------------------------------- */

static void bend_report(void)
{
    struct choices *choices = model.choices;

    switch (choose(choices, 8)) {
    case 0:
        fake.query_status = random_status();
        break;
    case 1:
        fake.query_size = 8 * (1 + (uint32_t)choose(choices, 5)); /* of 48 bytes */
        break;
    case 2:
        fake.report.live_views = choose(choices, 2);
        fake.report.live_capabilities = choose(choices, 2) * UINT64_MAX;
        break;
    default:
        break;
    }
}

static void reset_report(void)
{
    fake.query_status = fake.query_size = 0;
    memset(&fake.report, 0, sizeof fake.report);
}

static enum nxm_gate_reason due_reason(unsigned module)
{
    struct nxm_tallies host = model_tallies(module);

    if (fake.query_status != 0 || fake.query_size != 0)
        return NXM_GATE_QUERY_FAILED;
    if (host.allocators + host.allocations + host.queued != 0)
        return NXM_GATE_HOST;
    if (model_plugin_total() != 0 || fake.report.live_views != 0 || fake.report.live_capabilities != 0)
        return NXM_GATE_PLUGIN;
    return NXM_GATE_OPEN;
}

static void check_gate(unsigned module, const struct nxm_gate *gate)
{
    struct nxm_tallies host = model_tallies(module);

    EXPECT(memcmp(&gate->host, &host, sizeof host) == 0);
    EXPECT(gate->reason != NXM_GATE_QUERY_FAILED || gate->plugin.live_allocators == 0);
}

static struct model_module *pick_handle(void)
{
    struct model_module *held[MODEL_MODULES];
    unsigned count = 0;

    for (unsigned i = 0; i < model.module_count; i++) {
        if (model.modules[i].handle)
            held[count++] = &model.modules[i];
    }
    return count == 0 ? NULL : held[choose(model.choices, count)];
}

void operation_query(void)
{
    struct model_module *module = pick_handle();
    unsigned index;
    struct nxm_gate gate;

    if (module == NULL)
        return;
    index = (unsigned)(module - model.modules);
    bend_report();
    nxm_module_query_gate(module->module, &gate);
    EXPECT(gate.reason == due_reason(index) && gate.handle_kept);
    check_gate(index, &gate);
    reset_report();
}

/* --- giving the handle up ------------------------------------------------------------------------------------------------------ */

static void release_factories(struct model_module *module)
{
    for (unsigned i = 0; i < model.factories; i++)
        model.factory_releases += --module->factory_references[i] == 0;
}

/* The handle is gone; the code goes with the last that refers to it. */
static void handle_gone(struct model_module *module, bool leaked)
{
    unsigned before = model_mapped();

    release_factories(module);
    module->handle = false;
    module->pinned = module->pinned || leaked;
    if (module->pinned)
        return;
    module->module = NULL;
    model.counters.modules_unmapped++;
    unmap(before);
}

static void unload(void)
{
    struct model_module *module = pick_handle();
    enum nxm_gate_reason due;
    struct nxm_gate gate;
    unsigned index;
    int result;

    if (module == NULL)
        return;
    index = (unsigned)(module - model.modules);
    due = due_reason(index);
    result = nxm_module_unload(module->module, &gate);
    check_gate(index, &gate);
    if (due != NXM_GATE_OPEN) {
        EXPECT(result == NXM_EBUSY && gate.reason == due && gate.handle_kept);
    } else {
        EXPECT(!gate.handle_kept);
        EXPECT(result == (module->pinned ? NXM_EBUSY : NXM_OK));
        EXPECT(gate.reason == (module->pinned ? NXM_GATE_REFERENCED : NXM_GATE_OPEN));
        handle_gone(module, false);
    }
}

void operation_unload(void)
{
    bend_report();
    unload();
    reset_report();
}

void operation_unload_soundly(void)
{
    unload();
}

void operation_drop(void)
{
    struct model_module *module = pick_handle();
    bool leaked;

    if (module == NULL || !one_in(model.choices, 3))
        return; /* what is leaked stays for the life of the process */
    bend_report();
    leaked = due_reason((unsigned)(module - model.modules)) != NXM_GATE_OPEN;
    nxm_module_drop(module->module);
    model.counters.forced_module_leaks += leaked;
    handle_gone(module, leaked);
    reset_report();
}
