/* core/report_path.c: a pattern of any bytes becomes the expanded path whole, or nothing at all. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "core/report.h"
#include "support.h"

#define CAPACITY_MAX 600
#define PATTERN_MAX 300

static const char *const ranks[] = { "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "RANK" };

static const char *rank(char *const *values)
{
    for (size_t i = 0; i < 4; i++) {
        if (values[i][0] != '\0' && values[i][strspn(values[i], "0123456789")] == '\0')
            return values[i];
    }
    return "0";
}

static const char *program(void)
{
    static char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);

    FUZZ_CHECK(length > 0);
    path[length] = '\0';
    return strrchr(path, '/') + 1;
}

/* Written down a second time, into as much room as it wants. */
static void expand(const char *pattern, char *const *values, char *ret_path)
{
    struct utsname names;
    char *end = ret_path;

    FUZZ_CHECK(uname(&names) == 0);
    for (; *pattern != '\0'; pattern++) {
        if (pattern[0] != '%' || pattern[1] == '\0' || strchr("pher%", pattern[1]) == NULL) {
            *end++ = *pattern;
            continue;
        }
        pattern++;
        if (*pattern == 'p')
            end += sprintf(end, "%d", (int)getpid());
        else
            end = stpcpy(end, *pattern == 'h' ? names.nodename : *pattern == 'e' ? program() : *pattern == 'r' ? rank(values) : "%");
    }
    *end = '\0';
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    static char wanted[PATTERN_MAX * 100];
    struct fuzz_input input = { data, length };
    size_t capacity = 1 + (size_t)fuzz_number(&input, 256) % CAPACITY_MAX;
    char *values[4], *pattern, *path;

    for (size_t i = 0; i < 4; i++) {
        values[i] = fuzz_string(&input, 8);
        setenv(ranks[i], values[i], 1);
    }
    pattern = fuzz_string(&input, PATTERN_MAX);
    expand(pattern, values, wanted);
    path = malloc(capacity); /* exact: one byte behind it is a finding */
    memset(path, 'x', capacity);
    nxm_report_path(pattern, path, capacity);
    FUZZ_CHECK(memchr(path, '\0', capacity) != NULL);
    if (strlen(wanted) < capacity - 1)
        FUZZ_CHECK(strcmp(path, wanted) == 0);
    else
        FUZZ_CHECK(path[0] == '\0'); /* full, so perhaps cut: another file */
    for (size_t i = 0; i < 4; i++)
        free(values[i]);
    free(pattern);
    free(path);
    return 0;
}
