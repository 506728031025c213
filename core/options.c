#include "options.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "log.h"

#define PREFIX "NXMEM_"
#define PREFIX_LENGTH (sizeof PREFIX - 1)
#define TEXT_MAX_BYTES 4096
#define NAME_MAX_BYTES 48
#define NEAR_MISS 3u

struct row {
    const char *name, *fallback, *values;
    enum { TEXT, COUNT, CHOICE } type;
    size_t offset;
};

static const struct row rows[] = {
#define OPTION(field, type, name, fallback, values, help) { name, fallback, values, type, offsetof(struct nxm_options, field) },
#include "options.def"
#undef OPTION
};

#define ROW_COUNT (sizeof rows / sizeof *rows)

#define OPTION(field, type, name, fallback, values, help) _Static_assert(sizeof name <= NAME_MAX_BYTES, name);
#include "options.def"
#undef OPTION

static char kept[ROW_COUNT][TEXT_MAX_BYTES]; /* copies of TEXT values; only what is written becomes memory */

/* --- values ------------------------------------------------------------------------------------------ */

/* Digits and nothing else; false for a number that does not fit. Stops at `end`. */
static bool parse_number(const char *s, const char *end, unsigned *ret_number)
{
    unsigned number = 0;

    if (s == end)
        return false;
    for (; s != end; s++) {
        if (*s < '0' || *s > '9' || __builtin_mul_overflow(number, 10u, &number) ||
            __builtin_add_overflow(number, (unsigned)(*s - '0'), &number))
            return false;
    }
    *ret_number = number;
    return true;
}

/* `range` is "lowest..highest", from the table. */
static bool parse_count(const char *value, const char *range, unsigned *ret_count)
{
    const char *dots = strstr(range, "..");
    unsigned lowest, highest, count;

    if (!parse_number(value, value + strlen(value), &count) || !parse_number(range, dots, &lowest) ||
        !parse_number(dots + 2, range + strlen(range), &highest) || count < lowest || count > highest)
        return false;
    *ret_count = count;
    return true;
}

/* `choices` is "first|second", from the table. */
static bool parse_choice(const char *value, const char *choices, unsigned *ret_index)
{
    size_t length = strlen(value);

    for (unsigned index = 0;; index++) {
        size_t candidate = strcspn(choices, "|");

        if (candidate == length && memcmp(choices, value, length) == 0) {
            *ret_index = index;
            return true;
        }
        if (choices[candidate] == '\0')
            return false;
        choices += candidate + 1;
    }
}

static bool store(const struct row *row, const char *value, struct nxm_options *ret_options)
{
    char *field = (char *)ret_options + row->offset;
    char *copy = kept[row - rows];
    size_t length = strlen(value);

    switch (row->type) {
    case COUNT:
        return parse_count(value, row->values, (unsigned *)(void *)field);
    case CHOICE:
        return parse_choice(value, row->values, (unsigned *)(void *)field);
    case TEXT:
        break;
    }
    if (length >= TEXT_MAX_BYTES)
        return false;
    memcpy(copy, value, length + 1);
    *(const char **)(void *)field = copy;
    return true;
}

static const char *accepted(const struct row *row)
{
    return row->type == TEXT ? "up to 4095 bytes" : row->values;
}

static void read_row(const struct row *row, struct nxm_options *ret_options)
{
    const char *value = secure_getenv(row->name);

    store(row, row->fallback, ret_options);
    if (value != NULL && *value != '\0' && !store(row, value, ret_options))
        nxm_log(NXM_LOG_WARNING, "%s=%.*s is not understood; accepted: %s; using \"%s\"", row->name, 64, value,
                accepted(row), row->fallback);
}

/* --- names ------------------------------------------------------------------------------------------- */

static unsigned least(unsigned a, unsigned b, unsigned c)
{
    unsigned ab = a < b ? a : b;

    return ab < c ? ab : c;
}

/* Edit distance of two names, neither longer than NAME_MAX_BYTES. */
static unsigned distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
    unsigned row[NAME_MAX_BYTES + 1];

    for (size_t j = 0; j <= b_length; j++)
        row[j] = (unsigned)j;
    for (size_t i = 1; i <= a_length; i++) {
        unsigned diagonal = row[0];

        row[0] = (unsigned)i;
        for (size_t j = 1; j <= b_length; j++) {
            unsigned above = row[j];

            row[j] = least(above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1]));
            diagonal = above;
        }
    }
    return row[b_length];
}

/* Half the letters must be right: a short name is not a misspelling of every other short name. */
const char *nxm_options_almost(const char *name, size_t length)
{
    const char *nearest = NULL;
    unsigned best = NEAR_MISS + 1;

    if (length > NAME_MAX_BYTES)
        return NULL;
    for (size_t i = 0; i < ROW_COUNT; i++) {
        size_t option_length = strlen(rows[i].name);
        unsigned d = distance(name, length, rows[i].name, option_length);

        if (d == 0)
            return NULL;
        if (d < best && d * 2 <= option_length - PREFIX_LENGTH) {
            best = d;
            nearest = rows[i].name;
        }
    }
    return nearest;
}

static void warn_of_misspelt_names(void)
{
    if (environ == NULL || getauxval(AT_SECURE) != 0)
        return;
    for (char **entry = environ; *entry != NULL; entry++) {
        size_t length = strcspn(*entry, "=");
        const char *option;

        if (strncmp(*entry, PREFIX, PREFIX_LENGTH) != 0 || strncmp(*entry, "NXMEM_TEST", 10) == 0)
            continue;
        option = nxm_options_almost(*entry, length);
        if (option != NULL)
            nxm_log(NXM_LOG_WARNING, "%.*s is not an option; did you mean %s?", (int)length, *entry, option);
    }
}

void nxm_options_read(struct nxm_options *ret_options)
{
    for (size_t i = 0; i < ROW_COUNT; i++)
        read_row(&rows[i], ret_options);
    warn_of_misspelt_names();
}
