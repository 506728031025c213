#include "suppressions.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log.h"
#include "mem.h"
#include "result.h"

#define FILE_MAX_BYTES (1u << 20)
#define RULE_PREFIX "leak:"
#define BAD_LINES_SHOWN 5u

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
    if (length <= prefix || memcmp(line, RULE_PREFIX, prefix) != 0 || memchr(line, '\0', length) != NULL)
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

/* A file of the wrong kind has thousands of bad lines. */
static void warn_of_line(const char *path, unsigned number, unsigned bad, const char *line, size_t length)
{
    if (bad <= BAD_LINES_SHOWN)
        nxm_log(NXM_LOG_WARNING, "%s:%u: \"%.*s\" is no suppression; expected leak:pattern", path, number,
                (int)(length < 80 ? length : 80), line);
}

static void parse(struct nxm_suppressions *suppressions, const char *path, size_t length)
{
    const char *line = suppressions->text, *end = line + length;
    unsigned bad = 0;

    for (unsigned number = 1; line < end; number++) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        size_t line_length = (size_t)((newline != NULL ? newline : end) - line);
        struct rule rule;

        if (!parse_line(line, line_length, &rule))
            warn_of_line(path, number, ++bad, line, line_length);
        else if (rule.length > 0)
            suppressions->rules[suppressions->rule_count++] = rule;
        line += line_length + 1;
    }
    if (bad > BAD_LINES_SHOWN)
        nxm_log(NXM_LOG_WARNING, "%s: %u more lines are no suppressions (is it the right file?)", path,
                bad - BAD_LINES_SHOWN);
}

/* Why the file cannot be read; NULL when it was. */
static const char *read_all(int fd, char *ret_text, size_t capacity, size_t *ret_length)
{
    size_t length = 0;

    while (length < capacity) {
        ssize_t got = read(fd, ret_text + length, capacity - length);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return strerror(errno);
        if (got == 0)
            break;
        length += (size_t)got;
    }
    *ret_length = length;
    return length == capacity ? "the file is larger than 1 MiB" : NULL;
}

/* Files only: a pipe or a terminal would keep the program waiting. */
static const char *read_file(const char *path, char *ret_text, size_t capacity, size_t *ret_length)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat facts;
    const char *fault;

    if (fd < 0)
        return strerror(errno);
    if (fstat(fd, &facts) != 0)
        fault = strerror(errno);
    else if (!S_ISREG(facts.st_mode))
        fault = "not a regular file";
    else
        fault = read_all(fd, ret_text, capacity, ret_length);
    close(fd);
    return fault;
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
    const char *fault;
    size_t length = 0;

    if (text == NULL)
        return NXM_ENOMEM;
    fault = read_file(path, text, FILE_MAX_BYTES + 1, &length);
    if (fault != NULL) {
        nxm_log(NXM_LOG_WARNING, "suppressions in %s are ignored: %s", path, fault);
        result = NXM_EINVAL;
    } else {
        suppressions = allocate(text, length);
    }
    nxm_mem_unmap(text, FILE_MAX_BYTES + 1);
    errno = saved;
    if (suppressions == NULL)
        return result;
    parse(suppressions, path, length);
    *ret_suppressions = suppressions;
    return NXM_OK;
}

void nxm_suppressions_free(struct nxm_suppressions *suppressions)
{
    if (suppressions != NULL)
        nxm_mem_unmap(suppressions, suppressions->mapped);
}
