#include "setting.h"

#include "facts.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PREFIX "SIMCUDA_"
enum { NAME_ROOM = 64, LINE_ROOM = 2048 };

static const struct { const char *name, *accepted; } settings[SIM_SETTING_COUNT] = {
#define SETTING(name, accepted) { PREFIX #name, accepted },
#include "setting.def"
};

extern char **environ;

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
    char line[LINE_ROOM];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (n >= (int)sizeof line) n = (int)sizeof line - 1;
    ssize_t written = n > 0 ? write(STDERR_FILENO, line, (size_t)n) : 0;
    (void)written;
}

static void refuse(const char *variable, const char *text, const char *accepted)
{
    say("simcuda: %s=%.64s is not used: it may be %s\n", variable, text, accepted);
}

static const char *text_of(const char *variable)
{
    const char *text = getenv(variable);
    return text && *text ? text : NULL;
}

const char *sim_setting_text(enum sim_setting s)
{
    return text_of(settings[s].name);
}

void sim_setting_refuse(enum sim_setting s)
{
    refuse(settings[s].name, sim_setting_text(s), settings[s].accepted);
}

static bool parse_number(const char *text, const char **ret_end, uint64_t *ret_number)
{
    char *end;
    if (!isdigit((unsigned char)*text)) return false;
    errno = 0;
    *ret_number = strtoull(text, &end, 0);
    *ret_end = end;
    return !errno;
}

uint64_t sim_setting_number(enum sim_setting s, uint64_t otherwise, uint64_t least, uint64_t most)
{
    const char *text = sim_setting_text(s), *end;
    uint64_t n;
    if (!text) return otherwise;
    if (parse_number(text, &end, &n) && !*end && n >= least && n <= most) return n;
    sim_setting_refuse(s);
    return otherwise;
}

bool sim_setting_bool(enum sim_setting s, bool otherwise)
{
    return sim_setting_number(s, otherwise, 0, 1) != 0;
}

bool sim_setting_parse_bytes(const char *text, const char **ret_end, uint64_t *ret_bytes)
{
    static const char suffixes[] = "KkMmGg";
    const char *end, *suffix;
    uint64_t n;
    if (!parse_number(text, &end, &n)) return false;
    suffix = *end ? strchr(suffixes, *end) : NULL;
    unsigned shift = suffix ? 10 * (unsigned)((suffix - suffixes) / 2 + 1) : 0;
    if (n > UINT64_MAX >> shift) return false;
    *ret_bytes = n << shift;
    *ret_end = suffix ? end + 1 : end;
    return true;
}

uint64_t sim_setting_bytes(enum sim_setting s, uint64_t otherwise)
{
    const char *text = sim_setting_text(s), *end;
    uint64_t n;
    if (!text) return otherwise;
    if (sim_setting_parse_bytes(text, &end, &n) && !*end) return n;
    sim_setting_refuse(s);
    return otherwise;
}

/* --- facts ------------------------------------------------------------------------------------------------------- */

static void variable_of(const char *fact, char *ret_variable)
{
    size_t n = sizeof PREFIX - 1;
    memcpy(ret_variable, PREFIX, n);
    for (; *fact && n + 1 < NAME_ROOM; fact++) ret_variable[n++] = (char)toupper((unsigned char)*fact);
    ret_variable[n] = '\0';
}

int sim_setting_fact(const char *fact, int otherwise)
{
    char variable[NAME_ROOM];
    const char *end;
    uint64_t n;
    variable_of(fact, variable);
    const char *text = text_of(variable);
    if (!text) return otherwise;
    if (parse_number(text, &end, &n) && !*end && n <= INT16_MAX) return (int)n;
    refuse(variable, text, "a number: 0, 1, or a code of CUDA where the fact is one");
    return otherwise;
}

/* --- names that there are not -------------------------------------------------------------------------------------- */

static bool is_known(const char *entry)
{
    char variable[NAME_ROOM];
    size_t length = strcspn(entry, "=");
    for (int i = 0; i < SIM_SETTING_COUNT; i++)
        if (strlen(settings[i].name) == length && strncmp(settings[i].name, entry, length) == 0) return true;
    for (size_t i = 0; sim_fact_name_at(i); i++) {
        variable_of(sim_fact_name_at(i), variable);
        if (strlen(variable) == length && strncmp(variable, entry, length) == 0) return true;
    }
    return false;
}

static void refuse_name(const char *entry)
{
    char all[LINE_ROOM - 256] = "", variable[NAME_ROOM];
    size_t n = 0;
    for (int i = 0; i < SIM_SETTING_COUNT && n < sizeof all; i++)
        n += (size_t)snprintf(all + n, sizeof all - n, " %s", settings[i].name + sizeof PREFIX - 1);
    for (size_t i = 0; sim_fact_name_at(i) && n < sizeof all; i++) {
        variable_of(sim_fact_name_at(i), variable);
        n += (size_t)snprintf(all + n, sizeof all - n, " %s", variable + sizeof PREFIX - 1);
    }
    say("simcuda: %.*s is no setting; after " PREFIX " there are%s\n", (int)strcspn(entry, "="), entry, all);
}

__attribute__((constructor)) static void look_for_unknown_names(void)
{
    for (char **entry = environ; entry && *entry; entry++)
        if (strncmp(*entry, PREFIX, sizeof PREFIX - 1) == 0 && !is_known(*entry)) refuse_name(*entry);
    (void)sim_setting_bool(SIM_SETTING_RUNTIME_RELEASES, false); /* read by the runtime, of which there may be several */
}
