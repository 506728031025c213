/* nxmem-check: whether a plugin keeps the rules of the nxmem ABI, as far as they show from outside. It is a host of its
 * own, and shares nothing with the shim's: what both got wrong would stay unseen. */
#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "file.h"
#include "find.h"
#include "trial.h"

enum { DEFAULT_TIMEOUT = 10 };

static void print_help(void) {
    printf("Usage: nxmem-check [options] PLUGIN\n"
           "Tries a plugin's duties under the nxmem ABI, each in a process of its own, and\n"
           "prints a line for each.\n"
           "PLUGIN is a file, or a short name as NXMEM_PLUGIN takes it (direct).\n\n"
           "  --only RULE        only this rule, by number (12.6) or name; may be repeated\n"
           "  --mechanism NAME   only this mechanism; may be repeated\n"
           "  --timeout SECONDS  for each rule (default %d)\n"
           "  --json             one JSON object instead of lines\n"
           "  --list             list the rules\n"
           "  --help, --version\n\n"
           "Exit status: 0 what was tried is kept, 1 some rule is broken, 2 nothing could\n"
           "be tried: wrong usage, the plugin cannot be loaded, its devices are not here,\n"
           "or no rule was applicable.\n",
           DEFAULT_TIMEOUT);
}

static void print_rules(void) {
    for (unsigned i = 0; i < rule_count; i++) printf("%-7s %-22s %s\n", rules[i].number, rules[i].name, rules[i].what);
}

/* One line, and where to read more. */
__attribute__((format(printf, 1, 2))) static _Noreturn void refuse(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "nxmem-check: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "; see nxmem-check --help\n");
    va_end(arguments);
    exit(CANNOT_CHECK);
}

static void add_word(const char **words, unsigned *count, const char *word, const char *option) {
    if (*count == MAX_WORDS) refuse("%s is given too often", option);
    words[(*count)++] = word;
}

static void want_rule(struct wanted *wanted, const char *word) {
    add_word(wanted->rules, &wanted->rule_words, word, "--only");
    if (!is_rule_word(word)) refuse("there is no rule %s; --list lists them", word);
}

static unsigned read_seconds(const char *text) {
    char *end;
    long seconds = strtol(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || seconds < 1 || seconds > 3600) refuse("--timeout takes 1 to 3600 seconds, not \"%s\"", text);
    return (unsigned)seconds;
}

/* In our words: getopt's begin with however this was called. */
static _Noreturn void refuse_option(int answer, const struct option *options, char **argv) {
    const char *word = argv[optind - 1];
    if (answer == ':') refuse("option %s needs a value", word);
    for (; optopt && options->name; options++)
        if (options->val == optopt && options->has_arg == no_argument) refuse("option --%s takes no value", options->name);
    if (optopt) refuse("unknown option -%c", optopt);
    refuse("unknown option %s", word);
}

/* A verdict that nobody can read is none. */
static int written(int status) {
    if (fflush(stdout) == 0 && !ferror(stdout)) return status;
    fprintf(stderr, "nxmem-check: the report could not be written\n");
    return CANNOT_CHECK;
}

int main(int argc, char **argv) {
    static const struct option options[] = {{"only", required_argument, NULL, 'o'},    {"mechanism", required_argument, NULL, 'm'},
                                            {"timeout", required_argument, NULL, 't'}, {"json", no_argument, NULL, 'j'},
                                            {"list", no_argument, NULL, 'l'},          {"help", no_argument, NULL, 'h'},
                                            {"version", no_argument, NULL, 'V'},       {NULL, 0, NULL, 0}};
    static struct plugin plugin = {.timeout = DEFAULT_TIMEOUT};
    struct wanted wanted = {.rule_words = 0};
    struct report report = {.json = false};
    char path[PATH_MAX];
    int option;

    while ((option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
        switch (option) {
        case 'o': want_rule(&wanted, optarg); break;
        case 'm': add_word(wanted.mechanisms, &wanted.mechanism_words, optarg, "--mechanism"); break;
        case 't': plugin.timeout = read_seconds(optarg); break;
        case 'j': report.json = true; break;
        case 'l': print_rules(); return written(ALL_KEPT);
        case 'h': print_help(); return ALL_KEPT;
        case 'V': printf("nxmem-check %s\n", NXM_VERSION); return ALL_KEPT;
        default: refuse_option(option, options, argv);
        }
    }
    if (optind != argc - 1) refuse("one plugin is needed");
    if (!find_plugin(argv[optind], path)) return CANNOT_CHECK;
    const char *fault = file_fault(path);
    if (fault) {
        fprintf(stderr, "nxmem-check: %s: %s\n", path, fault);
        return CANNOT_CHECK;
    }
    plugin.path = path;
    const char *no_color = getenv("NO_COLOR");
    report.colours = isatty(STDOUT_FILENO) && !(no_color && *no_color);
    return written(trial_run(&plugin, &wanted, &report));
}
