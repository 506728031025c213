/* Where NXMEM_PLUGIN's value leads: nxm_module_find_path of module.h. */
#include "module.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "error.h"
#include "text.h"

#define NAME_SHOWN 32

static bool try_path(const char *directory, const char *below, const char *name, char *ret_path, size_t capacity)
{
    struct nxm_text text;

    nxm_text_init(&text, ret_path, capacity);
    nxm_text_printf(&text, "%s/%s%s.so", directory, below, name);
    return text.length == strlen(directory) + 1 + strlen(below) + strlen(name) + 3 && access(ret_path, F_OK) == 0;
}

static const char *const places[] = { "nxmem/", "", "plugins/" };

static bool find(const char *directory, const char *name, char *ret_path, size_t capacity)
{
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        if (try_path(directory, places[i], name, ret_path, capacity))
            return true;
    }
    return false;
}

/* `value` without its ".so", when that is a name that leads somewhere. */
static bool is_name_with_ending(const char *value, const char *directory, char *ret_name, size_t capacity, char *ret_path)
{
    size_t length = strlen(value);

    if (length <= 3 || length - 3 >= capacity || strcmp(value + length - 3, ".so") != 0)
        return false;
    memcpy(ret_name, value, length - 3);
    ret_name[length - 3] = '\0';
    return find(directory, ret_name, ret_path, PATH_MAX);
}

static int no_such_name(struct nxm_error *ret_error, const char *value, const char *directory)
{
    char name[NAME_SHOWN + sizeof "..."], without_ending[NAME_SHOWN + 1], path[PATH_MAX];
    struct nxm_text text;

    nxm_text_init(&text, name, sizeof name);
    nxm_text_printf(&text, "%.*s%s", NAME_SHOWN, value, strlen(value) > NAME_SHOWN ? "..." : "");
    if (access(value, F_OK) == 0)
        return nxm_error_set(ret_error, NXM_EOPEN, 0, "no plugin named %s in %s (for the file here write ./%s)", name, directory,
                             name);
    if (is_name_with_ending(value, directory, without_ending, sizeof without_ending, path))
        return nxm_error_set(ret_error, NXM_EOPEN, 0, "no plugin named %s: write %s for %s", name, without_ending, path);
    return nxm_error_set(ret_error, NXM_EOPEN, 0,
                         "no plugin named %s (give a path): looked for nxmem/%s.so, %s.so and plugins/%s.so in %s", name,
                         name, name, name, directory);
}

int nxm_module_find_path(const char *value, const char *directory, char *ret_path, size_t capacity,
                         struct nxm_error *ret_error)
{
    char path[PATH_MAX];

    if (value[0] == '\0')
        return nxm_error_set(ret_error, NXM_EOPEN, 0, "no plugin is named (give a path or a short name)");
    if (strchr(value, '/') != NULL && strlen(value) >= capacity)
        return nxm_error_set(ret_error, NXM_EOPEN, 0, "the plugin's path is longer than %zu bytes", capacity - 1);
    if (strchr(value, '/') != NULL) {
        memcpy(ret_path, value, strlen(value) + 1);
        return NXM_OK;
    }
    if (find(directory, value, path, sizeof path < capacity ? sizeof path : capacity)) {
        memcpy(ret_path, path, strlen(path) + 1);
        return NXM_OK;
    }
    return no_such_name(ret_error, value, directory);
}
