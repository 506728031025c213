#include "report.h"

#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "program.h"
#include "text.h"

static bool is_number(const char *s)
{
    return *s != '\0' && s[strspn(s, "0123456789")] == '\0';
}

static const char *rank(void)
{
    static const char *const names[] = { "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "RANK" };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = secure_getenv(names[i]);

        if (value != NULL && is_number(value))
            return value;
    }
    return "0";
}

static void append_host(struct nxm_text *text)
{
    struct utsname names;

    nxm_text_printf(text, "%s", uname(&names) == 0 ? names.nodename : "unknown");
}

/* The last part of the executable's path. */
static void append_program(struct nxm_text *text)
{
    char path[4096];
    size_t length = nxm_program_path(path, sizeof path);
    const char *slash = strrchr(path, '/');

    nxm_text_printf(text, "%s", length == 0 ? "unknown" : slash == NULL ? path : slash + 1);
}

/* Returns how many characters of the pattern it took. */
static size_t expand(struct nxm_text *text, const char *pattern)
{
    switch (pattern[0] == '%' ? pattern[1] : '\0') {
    case 'p':
        nxm_text_printf(text, "%d", (int)getpid());
        return 2;
    case 'h':
        append_host(text);
        return 2;
    case 'e':
        append_program(text);
        return 2;
    case 'r':
        nxm_text_printf(text, "%s", rank());
        return 2;
    case '%':
        nxm_text_printf(text, "%%");
        return 2;
    default:
        nxm_text_printf(text, "%c", pattern[0]);
        return 1;
    }
}

void nxm_report_path(const char *pattern, char *ret_path, size_t capacity)
{
    struct nxm_text text;

    nxm_text_init(&text, ret_path, capacity);
    while (*pattern != '\0' && text.length < capacity - 1)
        pattern += expand(&text, pattern);
    if (text.length == capacity - 1) /* full, so perhaps cut */
        ret_path[0] = '\0';
}
