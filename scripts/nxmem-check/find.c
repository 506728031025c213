#include "find.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The folder that the shim is in, from this program's own place; false where there is none. */
static bool find_libraries(char *ret_folder, size_t size) {
    char self[PATH_MAX], guess[PATH_MAX + 16], resolved[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length <= 0) return false;
    self[length] = '\0';
    *strrchr(self, '/') = '\0';
    snprintf(guess, sizeof guess, "%s/../lib", self);
    if (!realpath(guess, resolved) || strlen(resolved) >= size) return false;
    memcpy(ret_folder, resolved, strlen(resolved) + 1);
    return true;
}

static bool find_short_name(const char *name, const char *libraries, char *ret_path) {
    static const char *const places[] = {"nxmem/", "", "plugins/"};
    char guess[2 * PATH_MAX];
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        int length = snprintf(guess, sizeof guess, "%s/%s%s.so", libraries, places[i], name);
        if (length > 0 && length < PATH_MAX && realpath(guess, ret_path)) return true;
    }
    return false;
}

bool find_plugin(const char *word, char *ret_path) {
    char libraries[PATH_MAX] = "";
    bool is_short = !strchr(word, '/') && find_libraries(libraries, sizeof libraries);
    if (is_short && *word && find_short_name(word, libraries, ret_path)) return true;
    /* With its folder, or the loader would look elsewhere. */
    if (realpath(word, ret_path)) return true;
    if (is_short && errno == ENOENT && *word)
        fprintf(stderr, "nxmem-check: %s: no such file, nor a plugin of that name: looked for nxmem/%s.so, %s.so and plugins/%s.so in %s\n",
                word, word, word, word, libraries);
    else if (*word)
        fprintf(stderr, "nxmem-check: %s: %s\n", word, strerror(errno));
    else
        fprintf(stderr, "nxmem-check: the plugin's name is empty\n");
    return false;
}
