#include "json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *value(const char *s);

static const char *skip_space(const char *s)
{
    return s + strspn(s, " \n\t\r");
}

static const char *string(const char *s)
{
    if (*s++ != '"')
        return NULL;
    for (; *s != '"'; s++) {
        if ((unsigned char)*s < 0x20)
            return NULL;
        if (*s == '\\' && strchr("\"\\/bfnrtu", *++s) == NULL)
            return NULL;
    }
    return s + 1;
}

static const char *members(const char *s, bool keys, char end)
{
    s = skip_space(s + 1);
    if (*s == end)
        return s + 1;
    for (;;) {
        if (keys) {
            s = string(skip_space(s));
            s = s == NULL ? NULL : skip_space(s);
            if (s == NULL || *s++ != ':')
                return NULL;
        }
        s = value(s);
        if (s == NULL)
            return NULL;
        s = skip_space(s);
        if (*s == end)
            return s + 1;
        if (*s++ != ',')
            return NULL;
    }
}

static const char *value(const char *s)
{
    s = skip_space(s);
    if (*s == '{' || *s == '[')
        return members(s, *s == '{', *s == '{' ? '}' : ']');
    if (*s == '"')
        return string(s);
    for (size_t i = 0; i < 3; i++) {
        static const char *const words[] = { "true", "false", "null" };

        if (strncmp(s, words[i], strlen(words[i])) == 0)
            return s + strlen(words[i]);
    }
    s += *s == '-';
    return strspn(s, "0123456789") == 0 ? NULL : s + strspn(s, "0123456789");
}

void json_assert(const char *text)
{
    const char *end = value(text);

    assert_non_null(end);
    assert_int_equal(*skip_space(end), '\0');
}

uint64_t json_number(const char *json, const char *section, const char *key)
{
    const char *at = strstr(json, section);
    char quoted[64];

    assert_non_null(at);
    snprintf(quoted, sizeof quoted, "\"%s\": ", key);
    at = strstr(at, quoted);
    assert_non_null(at);
    return strtoull(at + strlen(quoted), NULL, 10);
}
