#include "suppressions.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "log.h"
#include "mem.h"
#include "result.h"

#define FILE_MAX_BYTES (1u << 20)
#define RULE_PREFIX "leak:"

struct rule {
    const char *pattern; /* without its anchors; into the text */
    size_t length;
    bool at_start, at_end;
};

struct nxm_suppressions {
    size_t mapped; /* bytes of this mapping: header, rules, text */
    size_t rule_count;
    char *text;
    struct rule rules[];
};

/* --- matching ------------------------------------------------------------------------------------------ */

/* What is not anchored behaves as if a `*` stood there. Each `*` takes as little as it can; on a mismatch
 * the last one takes one character more, which is enough: an earlier one need never give back. */
static bool rule_matches(const struct rule *rule, const char *s)
{
    const char *p = rule->pattern, *end = p + rule->length;
    const char *star_p = rule->at_start ? NULL : p, *star_s = s;

    for (;;) {
        if (p == end && (!rule->at_end || *s == '\0'))
            return true;
        if (p != end && *p == '*') {
            star_p = ++p;
            star_s = s;
        } else if (p != end && *s != '\0' && *p == *s) {
            p++;
            s++;
        } else if (star_p != NULL && *star_s != '\0') {
            p = star_p;
            s = ++star_s;
        } else {
            return false;
        }
    }
}

bool nxm_suppressions_match(const struct nxm_suppressions *suppressions, const struct nxm_frame *frames, size_t count)
{
    if (suppressions == NULL)
        return false;
    for (size_t i = 0; i < suppressions->rule_count; i++) {
        for (size_t j = 0; j < count; j++) {
            if (rule_matches(&suppressions->rules[i], frames[j].module) ||
                (frames[j].symbol != NULL && rule_matches(&suppressions->rules[i], frames[j].symbol)))
                return true;
        }
    }
    return false;
}

/* --- reading --------------------------------------------------------------------------------------------- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* false: the line is no rule. A comment or an empty line is one that adds nothing (length 0). */
static bool parse_line(const char *line, size_t length, struct rule *ret_rule)
{
    const size_t prefix = sizeof RULE_PREFIX - 1;

    while (length > 0 && is_blank(*line)) {
        line++;
        length--;
    }
    while (length > 0 && is_blank(line[length - 1]))
        length--;
    *ret_rule = (struct rule){ .pattern = line };
    if (length == 0 || *line == '#')
        return true;
    if (length <= prefix || memcmp(line, RULE_PREFIX, prefix) != 0)
        return false;
    line += prefix;
    length -= prefix;
    ret_rule->at_start = *line == '^';
    line += ret_rule->at_start;
    length -= ret_rule->at_start;
    ret_rule->at_end = length > 0 && line[length - 1] == '$';
    length -= ret_rule->at_end;
    ret_rule->pattern = line;
    ret_rule->length = length;
    return length > 0;
}

static void parse(struct nxm_suppressions *suppressions, const char *path)
{
    const char *line = suppressions->text;

    for (unsigned number = 1; *line != '\0'; number++) {
        size_t length = strcspn(line, "\n");
        struct rule rule;

        if (!parse_line(line, length, &rule))
            nxm_log(NXM_LOG_WARNING, "%s:%u: \"%.*s\" is no suppression; expected leak:pattern", path, number,
                    (int)(length < 80 ? length : 80), line);
        else if (rule.length > 0)
            suppressions->rules[suppressions->rule_count++] = rule;
        line += length + (line[length] == '\n');
    }
}

static ssize_t read_file(const char *path, char *ret_text, size_t capacity)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t length = 0;
    ssize_t got = -1;

    if (fd < 0)
        return -1;
    while (length < capacity) {
        got = read(fd, ret_text + length, capacity - length);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        length += (size_t)got;
    }
    close(fd);
    return got < 0 ? -1 : (ssize_t)length;
}

/* Rules and text in one mapping that lives as long as the rules do. */
static struct nxm_suppressions *allocate(const char *text, size_t length)
{
    size_t lines = 1, bytes;
    struct nxm_suppressions *suppressions;

    for (size_t i = 0; i < length; i++)
        lines += text[i] == '\n';
    bytes = sizeof *suppressions + lines * sizeof(struct rule) + length + 1;
    suppressions = nxm_mem_map(bytes);
    if (suppressions == NULL)
        return NULL;
    suppressions->mapped = bytes;
    suppressions->text = (char *)&suppressions->rules[lines];
    memcpy(suppressions->text, text, length);
    return suppressions;
}

int nxm_suppressions_load(const char *path, struct nxm_suppressions **ret_suppressions)
{
    char *text = nxm_mem_map(FILE_MAX_BYTES + 1);
    struct nxm_suppressions *suppressions = NULL;
    int saved = errno, result = NXM_ENOMEM;
    ssize_t length;

    if (text == NULL)
        return NXM_ENOMEM;
    length = read_file(path, text, FILE_MAX_BYTES + 1);
    if (length < 0 || length > (ssize_t)FILE_MAX_BYTES) {
        nxm_log(NXM_LOG_WARNING, "suppressions in %s are ignored: %s", path,
                length < 0 ? "the file cannot be read" : "the file is larger than 1 MiB");
        result = NXM_EINVAL;
    } else {
        suppressions = allocate(text, (size_t)length);
    }
    nxm_mem_unmap(text, FILE_MAX_BYTES + 1);
    errno = saved;
    if (suppressions == NULL)
        return result;
    parse(suppressions, path);
    *ret_suppressions = suppressions;
    return NXM_OK;
}

void nxm_suppressions_free(struct nxm_suppressions *suppressions)
{
    if (suppressions != NULL)
        nxm_mem_unmap(suppressions, suppressions->mapped);
}
