#include "mechanism_list.h"

#include <stdbool.h>
#include <string.h>

#include "status.h"

static bool is_named_before(const struct nxm_module *module, size_t index, const char *name)
{
    struct nxm_mechanism earlier;

    for (size_t i = 0; i < index; i++) {
        nxm_module_mechanism(module, i, &earlier);
        if (strcmp(earlier.name, name) == 0)
            return true;
    }
    return false;
}

static void list_run(NxmemDeviceId first, uint64_t last, struct nxm_text *text)
{
    nxm_text_printf(text, "%s %u", nxm_tier_word(first.tier), first.index);
    if (last != first.index)
        nxm_text_printf(text, " to %llu", (unsigned long long)last);
}

/* Of that name, from `index` on, where it is met first. Devices that follow each other are one run. */
static void list_devices(const struct nxm_module *module, size_t index, struct nxm_text *text)
{
    struct nxm_mechanism named, next;

    nxm_module_mechanism(module, index, &named);
    NxmemDeviceId first = named.device;
    uint64_t last = first.index;
    for (size_t i = index + 1; i < nxm_module_mechanism_count(module); i++) {
        nxm_module_mechanism(module, i, &next);
        if (strcmp(next.name, named.name) != 0)
            continue;
        if (next.device.tier == first.tier && next.device.index == last + 1) {
            last++;
            continue;
        }
        list_run(first, last, text);
        nxm_text_string(text, ", ");
        first = next.device;
        last = first.index;
    }
    list_run(first, last, text);
}

void nxm_mechanism_list(const struct nxm_module *module, struct nxm_text *text)
{
    size_t count = nxm_module_mechanism_count(module);
    struct nxm_mechanism mechanism;

    for (size_t i = 0; i < count; i++) {
        nxm_module_mechanism(module, i, &mechanism);
        if (is_named_before(module, i, mechanism.name))
            continue;
        nxm_text_printf(text, "%s%s (", i == 0 ? "" : ", ", mechanism.name);
        list_devices(module, i, text);
        nxm_text_string(text, ")");
    }
    if (count == 0)
        nxm_text_string(text, "none");
}
