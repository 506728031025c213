/* core/suppressions.c: a file of any bytes, matched against names of any bytes, says what the plainest reading of the
 * syntax says. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/result.h"
#include "core/suppressions.h"
#include "support.h"

/* --- the plainest reading ---------------------------------------------------------------------------------------- */

#define PATTERN_MAX 64
#define NAME_MAX_BYTES 48

/* Whether the pattern matches all of `s`; reach[i]: its first i characters can match what was seen so far. */
static bool matches_whole(const char *pattern, size_t length, const char *s)
{
    bool reach[PATTERN_MAX + 3] = { true };

    for (size_t i = 0; i < length && pattern[i] == '*'; i++)
        reach[i + 1] = true;
    for (; *s != '\0'; s++) {
        bool next[PATTERN_MAX + 3] = { false };

        for (size_t i = 0; i < length; i++) {
            if (reach[i] && pattern[i] == *s && pattern[i] != '*')
                next[i + 1] = true;
            if (reach[i] && pattern[i] == '*')
                next[i] = true;
        }
        for (size_t i = 0; i < length; i++) {
            if (next[i] && pattern[i] == '*')
                next[i + 1] = true;
        }
        memcpy(reach, next, sizeof reach);
    }
    return reach[length];
}

static bool rule_matches(const char *rule, size_t length, const char *s)
{
    char pattern[PATTERN_MAX + 2];
    bool at_start = length > 0 && rule[0] == '^', at_end;
    size_t used = 0;

    rule += at_start;
    length -= at_start;
    at_end = length > 0 && rule[length - 1] == '$';
    length -= at_end;
    if (length == 0)
        return false; /* no rule */
    if (!at_start)
        pattern[used++] = '*';
    memcpy(pattern + used, rule, length);
    used += length;
    if (!at_end)
        pattern[used++] = '*';
    return matches_whole(pattern, used, s);
}

static bool blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static bool line_matches(const char *line, size_t length, const char *s)
{
    while (length > 0 && blank(line[0])) {
        line++;
        length--;
    }
    while (length > 0 && blank(line[length - 1]))
        length--;
    if (length <= 5 || strncmp(line, "leak:", 5) != 0 || memchr(line, '\0', length) != NULL)
        return false;
    return rule_matches(line + 5, length - 5, s);
}

static bool text_matches(const char *text, size_t length, const char *s)
{
    while (length > 0) {
        const char *newline = memchr(text, '\n', length);
        size_t line = newline == NULL ? length : (size_t)(newline - text);

        if (line_matches(text, line, s))
            return true;
        if (newline == NULL)
            return false;
        text += line + 1;
        length -= line + 1;
    }
    return false;
}

/* --- a file -------------------------------------------------------------------------------------------------------- */

/* Few different characters, so that patterns almost match, and in more than one place. */
static char narrow(char c)
{
    return "ab*a^$b /"[(unsigned char)c % 9];
}

static char *make_name(struct fuzz_input *input, bool narrowed)
{
    char *name = fuzz_string(input, NAME_MAX_BYTES);

    for (char *c = name; narrowed && *c != '\0'; c++)
        *c = narrow(*c);
    return name;
}

/* Lines short enough for the plain reading; half of them open as a rule does. */
static size_t make_text(struct fuzz_input *input, bool narrowed, char *ret_text, size_t capacity)
{
    size_t length = 0;

    while (input->left > 0 && length + PATTERN_MAX + 8 < capacity) {
        size_t line = fuzz_u8(input) % (PATTERN_MAX - 8);

        if (fuzz_one_in(input, 2)) {
            memcpy(ret_text + length, "leak:", 5);
            length += 5;
        }
        for (size_t i = 0; i < line && input->left > 0; i++) {
            char c = (char)fuzz_u8(input);

            if (c == '\n')
                break;
            ret_text[length++] = narrowed ? narrow(c) : c;
        }
        if (!fuzz_one_in(input, 8))
            ret_text[length++] = '\n';
        else
            break; /* a last line without an end */
    }
    return length;
}

static int load(const char *text, size_t length, struct nxm_suppressions **ret_suppressions)
{
    static int file = -1;
    static char path[32] = "/proc/self/fd/";

    if (file < 0) {
        file = memfd_create("suppressions", MFD_CLOEXEC);
        FUZZ_CHECK(file >= 0 && file < 100);
        path[14] = (char)('0' + file / 10);
        path[15] = (char)('0' + file % 10);
        if (file < 10) {
            path[14] = path[15];
            path[15] = '\0';
        }
    }
    FUZZ_CHECK(ftruncate(file, 0) == 0);
    FUZZ_CHECK(pwrite(file, text, length, 0) == (ssize_t)length);
    return nxm_suppressions_load(path, ret_suppressions);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    struct fuzz_input input = { data, length };
    bool narrowed = fuzz_one_in(&input, 2);
    char *module = make_name(&input, narrowed), *symbol = make_name(&input, narrowed), text[4096];
    struct nxm_frame frames[2];
    struct nxm_suppressions *suppressions = NULL;
    bool named = !fuzz_one_in(&input, 4), wanted;
    size_t bytes = make_text(&input, narrowed, text, sizeof text);

    memset(frames, 0, sizeof frames);
    frames[0].module = "";
    frames[1].module = module;
    frames[1].symbol = named ? symbol : NULL;
    FUZZ_CHECK(load(text, bytes, &suppressions) == NXM_OK);
    wanted = text_matches(text, bytes, module) || text_matches(text, bytes, "") ||
             (named && text_matches(text, bytes, symbol));
    FUZZ_CHECK(nxm_suppressions_match(suppressions, frames, 2) == wanted);
    FUZZ_CHECK(!nxm_suppressions_match(suppressions, frames, 0));
    nxm_suppressions_free(suppressions);
    free(module);
    free(symbol);
    return 0;
}
