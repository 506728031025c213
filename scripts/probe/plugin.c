#include "plugin.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/mechanism_list.h"
#include "core/module.h"
#include "core/text.h"
#include "say.h"

static void print_mechanisms(FILE *out, const struct nxm_module *module) {
    char list[4096];
    struct nxm_text text;
    nxm_text_init(&text, list, sizeof list);
    nxm_mechanism_list(module, &text);
    fprintf(out, "%s\n", list);
}

/* Which device will be asked for is the program's affair: any device's mechanism of that name will do. */
static bool serves_devices(const struct nxm_module *module, const char *mechanism) {
    for (size_t i = 0; i < nxm_module_mechanism_count(module); i++) {
        struct nxm_mechanism found;
        nxm_module_mechanism(module, i, &found);
        if (found.device.tier == NXMEM_TIER_DEVICE && (!mechanism || strcmp(found.name, mechanism) == 0)) return true;
    }
    return false;
}

static bool check_mechanisms(const struct nxm_module *module, const char *mechanism) {
    if (serves_devices(module, mechanism)) return true;
    const char *path = nxm_module_path(module);
    if (mechanism) {
        fprintf(stderr, "nxrun: plugin %s has no mechanism \"%s\" for device memory; it has: ", path, mechanism);
    } else {
        fprintf(stderr, "nxrun: warning: plugin %s serves no device memory: what NXMEM_ON_ERROR says will happen%s; it has: ",
                path, strstr(path, "/host.so") ? " (NXMEM_HOST_AS_DEVICE=1 and SIMCUDA_HOST_MEMORY=1 let it stand in for a simulated device's memory)" : "");
    }
    print_mechanisms(stderr, module);
    return !mechanism;
}

/* Nothing was opened, so the gate is open; a plugin that says otherwise only keeps this process's copy. */
static void let_go(struct nxm_module *module) {
    struct nxm_gate gate;
    if (nxm_module_unload(module, &gate) != NXM_OK && gate.handle_kept) nxm_module_drop(module);
}

/* A plugin is loaded lazily (nxmem 7.1): a function that nobody defines is missed when it is called, and that ends the
 * program. It may be one that the program brings along, so this is no refusal. Only a library that is not there yet
 * is bound at once, so the plugin must have been let go. */
static void warn_of_undefined(const char *path) {
    void *bound = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!bound) {
        probe_say("warning: plugin %s: the program ends when that is called, unless it has it itself", dlerror());
        return;
    }
    dlclose(bound);
}

/* A plugin whose code ends the process while it is loaded would end the program; here it would pass for a success. */
static const char *being_loaded;

static void tell_of_end(void) {
    if (!being_loaded) return;
    probe_say("plugin %s: loading it ends the process; use another one", being_loaded);
    _exit(2);
}

static int load(const char *path, struct nxm_module **ret_module, struct nxm_error *ret_error) {
    being_loaded = path;
    atexit(tell_of_end);
    int result = nxm_module_load(path, NULL, ret_module, ret_error);
    being_loaded = NULL;
    return result;
}

bool probe_plugin(const char *value, const char *directory, const char *mechanism, bool show) {
    char path[PATH_MAX] = "";
    struct nxm_error error = {0};
    struct nxm_module *module;
    if (nxm_module_find_path(value, directory, path, sizeof path, &error) != NXM_OK ||
        load(path, &module, &error) != NXM_OK) {
        if (*path && !strstr(error.text, path)) /* a refused negotiation does not know whose it was */
            probe_say("plugin %s: %s", path, error.text);
        else
            probe_say("%s", error.text);
        return false;
    }
    if (show) {
        printf("plugin     %s (nxmem ABI 1.%u)\nmechanisms ", path, nxm_module_minor(module));
        print_mechanisms(stdout, module);
    }
    bool good = check_mechanisms(module, mechanism);
    let_go(module);
    warn_of_undefined(path); /* which has a slash: a short name was looked up */
    return good;
}
