/* core/options.c: whatever the environment holds, each field is the default or an accepted value, and the texts are the
 * reader's own. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/options.h"
#include "support.h"

#define TEXT_MAX 4095

enum type { TEXT, COUNT, CHOICE };

static const struct option {
    const char *name, *fallback, *values;
    enum type type;
    size_t offset;
} options[] = {
#define OPTION(field, type, name, fallback, values, help) { name, fallback, values, type, offsetof(struct nxm_options, field) },
#include "core/options.def"
#undef OPTION
};

#define OPTIONS (sizeof options / sizeof *options)

/* --- what a value means, written down a second time ------------------------------------------------------------- */

static bool count_of(const char *value, const char *range, unsigned *ret_count)
{
    unsigned long lowest = strtoul(range, NULL, 10), highest = strtoul(strstr(range, "..") + 2, NULL, 10);
    unsigned long count = 0;

    if (value[0] == '\0' || value[strspn(value, "0123456789")] != '\0')
        return false;
    for (const char *digit = value; *digit != '\0'; digit++) {
        count = count * 10 + (unsigned long)(*digit - '0');
        if (count > 1000000)
            return false;
    }
    *ret_count = (unsigned)count;
    return count >= lowest && count <= highest;
}

static bool choice_of(const char *value, const char *choices, unsigned *ret_index)
{
    char copy[256], *rest = copy, *choice;

    strncpy(copy, choices, sizeof copy - 1);
    copy[sizeof copy - 1] = '\0';
    for (unsigned index = 0; (choice = strsep(&rest, "|")) != NULL; index++) {
        *ret_index = index;
        if (strcmp(choice, value) == 0)
            return true;
    }
    return false;
}

static bool accepted(const struct option *option, const char *value, unsigned *ret_number)
{
    switch (option->type) {
    case COUNT:
        return count_of(value, option->values, ret_number);
    case CHOICE:
        return choice_of(value, option->values, ret_number);
    case TEXT:
    default:
        return strlen(value) <= TEXT_MAX;
    }
}

static void check_field(const struct option *option, const struct nxm_options *read, const char *value)
{
    const char *field = (const char *)read + option->offset;
    unsigned number = 0;

    if (value == NULL || *value == '\0' || !accepted(option, value, &number)) {
        value = option->fallback;
        FUZZ_CHECK(accepted(option, value, &number));
    }
    if (option->type == TEXT)
        FUZZ_CHECK(strcmp(*(const char *const *)(const void *)field, value) == 0);
    else
        FUZZ_CHECK(*(const unsigned *)(const void *)field == number);
}

/* --- an environment ---------------------------------------------------------------------------------------------- */

/* A value, or one of the accepted ones with something behind it: bounds are near those. */
static char *make_value(struct fuzz_input *input, const struct option *option)
{
    static const char *const words[] = { "",      "0",    "00",     "255",        "256", "64",         "65",
                                         "60000", "60001", "native", "native|fail", "json", "4294967296", "deferred" };
    size_t length = 0;
    char *value;

    if (fuzz_one_in(input, 2))
        return fuzz_string(input, 64);
    if (option->type == TEXT && fuzz_one_in(input, 2))
        length = TEXT_MAX - 1 + fuzz_u8(input) % 3;
    value = malloc(length + 64);
    memset(value, 'x', length);
    strcpy(value + length, words[fuzz_u8(input) % (sizeof words / sizeof *words)]);
    return value;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    static char name[300];
    struct fuzz_input input = { data, length };
    char *values[OPTIONS] = { NULL }, *entries[OPTIONS + 2] = { NULL }, **before = environ, *own_value;
    struct nxm_options read;
    size_t count = 0;

    memset(&read, 0xAA, sizeof read);
    for (size_t i = 0; i < OPTIONS; i++) {
        size_t room;

        if (fuzz_one_in(&input, 2))
            continue;
        values[i] = make_value(&input, &options[i]);
        room = strlen(options[i].name) + strlen(values[i]) + 2;
        entries[count] = malloc(room);
        strcpy(entries[count], options[i].name);
        strcat(entries[count], "=");
        strcat(entries[count++], values[i]);
    }
    own_value = fuzz_string(&input, 200); /* a name of the input's own, perhaps nearly an option's */
    strcpy(name, "NXMEM_");
    strcat(name, own_value);
    if (strchr(own_value, '=') == NULL)
        entries[count] = name;
    environ = entries;
    nxm_options_read(&read);
    environ = before;
    while (count-- > 0) { /* what the program overwrites later must not matter */
        memset(entries[count], '#', strlen(entries[count]));
        free(entries[count]);
    }
    for (size_t i = 0; i < OPTIONS; i++) {
        const char *value = values[i];

        if (value == NULL && strncmp(name, options[i].name, strlen(options[i].name)) == 0)
            value = ""; /* named without a value: the default */
        check_field(&options[i], &read, value);
        free(values[i]);
    }
    free(own_value);
    return 0;
}
