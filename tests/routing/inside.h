/* Tests of the routes run *inside* a preloaded process: main() starts itself once more with the shim in
 * front. Fixtures lie beside the test's own binary. */
#ifndef NXM_TESTS_INSIDE_H
#define NXM_TESTS_INSIDE_H

#include <dlfcn.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* "<folder of this binary>/<name>" in one of a few static buffers */
static inline const char *beside(const char *name)
{
    static char buffers[8][PATH_MAX];
    static unsigned turn;
    char *path = buffers[turn++ % 8];
    ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 256);
    assert_true(length > 0);
    path[length] = '\0';
    strcpy(strrchr(path, '/') + 1, name);
    return path;
}

static inline void *open_beside(const char *name, int flags)
{
    void *handle = dlopen(beside(name), flags);
    if (!handle) fail_msg("%s", dlerror());
    return handle;
}

/* A program of another machine is started by its emulator (NXM_EMULATOR: the command, to which a setting is "-E NAME=VALUE"), which must
 * not see the preload itself. */
static inline void run_emulated(char **argv, const char *preload)
{
    static char words[PATH_MAX], in_front[2 * PATH_MAX], libraries[2 * PATH_MAX], self[PATH_MAX];
    const char *emulator = getenv("NXM_EMULATOR"), *path = getenv("NXM_EMULATED_LIBRARIES");
    char *command[64];
    size_t n = 0;
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (!emulator || length <= 0) return;
    self[length] = '\0';
    snprintf(words, sizeof words, "%s", emulator);
    for (char *word = strtok(words, " "); word && n < 16; word = strtok(NULL, " ")) command[n++] = word;
    snprintf(in_front, sizeof in_front, "LD_PRELOAD=%s", preload);
    snprintf(libraries, sizeof libraries, "LD_LIBRARY_PATH=%s", path ? path : "");
    command[n++] = (char *)"-E";
    command[n++] = in_front;
    command[n++] = (char *)"-E";
    command[n++] = libraries;
    command[n++] = self;
    for (size_t i = 1; argv[i] && n < 63; ++i) command[n++] = argv[i];
    command[n] = NULL;
    unsetenv("LD_PRELOAD");
    unsetenv("LD_LIBRARY_PATH");
    execv(command[0], command);
    perror(command[0]);
    _exit(127);
}

/* Starts the program again with `preload` (libraries beside it, colon between them) in front. */
static inline void run_inside(char **argv, const char *preload)
{
    if (getenv("NXM_TEST_INSIDE")) return;
    setenv("NXM_TEST_INSIDE", "1", 1);
    run_emulated(argv, preload);
#ifdef NXM_SANITIZER_RUNTIME
    char in_front[2 * PATH_MAX];
    snprintf(in_front, sizeof in_front, "%s:%s", NXM_SANITIZER_RUNTIME, preload);
    preload = in_front;
    setenv("ASAN_OPTIONS", "detect_leaks=0", 0); /* fixtures stay open */
#endif
    setenv("LD_PRELOAD", preload, 1);
    execv("/proc/self/exe", argv);
    perror("execv");
    _exit(127);
}

/* Runs the program once for each value of NXM_TEST_CASE, each preloaded afresh: the shim learns its driver once
 * a process. The number of runs that failed. */
static inline int run_each(char **argv, const char *const cases[], size_t count)
{
    int failures = 0;
    for (size_t i = 0; i < count; ++i) {
        pid_t child = fork();
        if (child == 0) {
            setenv("NXM_TEST_CASE", cases[i], 1);
            run_inside(argv, beside("libroutes.so"));
        }
        int status = -1;
        if (child < 0 || waitpid(child, &status, 0) != child || status) {
            fprintf(stderr, "case %s failed (status %d)\n", cases[i], status);
            ++failures;
        }
    }
    return failures;
}

#define SYMBOL(type, handle, name) ((type *)dlsym(handle, name))

/* What the shim under test says of itself. */
static inline void *hook(const char *name)
{
    void *(*ask)(const char *) = (void *(*)(const char *))dlsym(RTLD_DEFAULT, "nxmem_test_hook");
    assert_non_null(ask);
    return ask(name);
}

static inline unsigned hooked(const char *name)
{
    unsigned (*ask)(const char *) = (unsigned (*)(const char *))dlsym(RTLD_DEFAULT, "nxmem_test_hooked");
    assert_non_null(ask);
    return ask(name);
}

static inline unsigned labelled(const char *name)
{
    unsigned (*ask)(const char *) = (unsigned (*)(const char *))dlsym(RTLD_DEFAULT, "nxmem_test_labelled");
    assert_non_null(ask);
    return ask(name);
}

/* Whether that function lies in that library, which tells a driver's own from a hook. */
static inline int lies_in(const void *address, const char *library)
{
    Dl_info info;
    return dladdr(address, &info) && strstr(info.dli_fname, library) != NULL;
}

#endif
