#include "trial.h"

#include <stdio.h>
#include <string.h>

/* --- what is wanted --- */

static bool is_rule(const struct rule *rule, const char *word) {
    return strcmp(rule->number, word) == 0 || strcmp(rule->name, word) == 0;
}

bool is_rule_word(const char *word) {
    for (unsigned i = 0; i < rule_count; i++)
        if (is_rule(&rules[i], word)) return true;
    return false;
}

static bool rule_wanted(const struct wanted *wanted, const struct rule *rule) {
    for (unsigned i = 0; i < wanted->rule_words; i++)
        if (is_rule(rule, wanted->rules[i])) return true;
    return wanted->rule_words == 0;
}

static bool mechanism_wanted(const struct wanted *wanted, const struct mechanism *mechanism) {
    for (unsigned i = 0; i < wanted->mechanism_words; i++)
        if (strcmp(mechanism->name, wanted->mechanisms[i]) == 0) return true;
    return wanted->mechanism_words == 0;
}

static bool scope_wanted(const struct wanted *wanted, bool module) {
    for (unsigned i = 0; i < rule_count; i++)
        if ((rules[i].scope == MODULE) == module && rule_wanted(wanted, &rules[i])) return true;
    return false;
}

/* Where the first of that name is; as many as there are: nowhere. */
static unsigned first_named(const struct plugin *plugin, const char *name) {
    unsigned at = 0;
    while (at < plugin->mechanism_count && strcmp(plugin->mechanisms[at].name, name) != 0) at++;
    return at;
}

static bool knows_all(const struct plugin *plugin, const struct wanted *wanted) {
    for (unsigned i = 0; i < wanted->mechanism_words; i++) {
        unsigned at = first_named(plugin, wanted->mechanisms[i]);
        if (at < plugin->mechanism_count) continue;
        fprintf(stderr, "nxmem-check: the plugin has no mechanism %s; it has", wanted->mechanisms[i]);
        for (at = 0; at < plugin->mechanism_count; at++)
            if (first_named(plugin, plugin->mechanisms[at].name) == at) fprintf(stderr, " %s", plugin->mechanisms[at].name);
        fprintf(stderr, "\n");
        return false;
    }
    return true;
}

/* A run that tries nothing looks like one that finds nothing. */
static bool selects_any(const struct plugin *plugin, const struct wanted *wanted) {
    if (wanted->mechanism_words && !scope_wanted(wanted, false))
        fprintf(stderr, "nxmem-check: nothing to try: --only names rules of the module, and --mechanism leaves those out\n");
    else if (!scope_wanted(wanted, true) && plugin->mechanism_count == 0)
        fprintf(stderr, "nxmem-check: nothing to try: --only names rules of mechanisms, and the plugin has none\n");
    else
        return true;
    return false;
}

/* --- trying --- */

static void check_module(const struct plugin *plugin, const struct wanted *wanted, struct report *report) {
    if (!scope_wanted(wanted, true) || wanted->mechanism_words) return;
    report_heading(report, NULL);
    for (unsigned i = 0; i < rule_count; i++) {
        if (rules[i].scope != MODULE || !rule_wanted(wanted, &rules[i])) continue;
        struct outcome outcome = child_try(plugin, 0, &rules[i]);
        report_line(report, NULL, &rules[i], &outcome);
    }
}

static void check_mechanism(const struct plugin *plugin, unsigned index, const struct wanted *wanted, struct report *report) {
    const struct mechanism *mechanism = &plugin->mechanisms[index];
    report_heading(report, mechanism);
    for (unsigned i = 0; i < rule_count; i++) {
        if (rules[i].scope == MODULE || !rule_wanted(wanted, &rules[i])) continue;
        struct outcome outcome = child_try(plugin, index, &rules[i]);
        report_line(report, mechanism, &rules[i], &outcome);
    }
}

/* How many could be tried. *ret_why: why the first that could not. */
static unsigned check_mechanisms(const struct plugin *plugin, const struct wanted *wanted, struct report *report, struct outcome *ret_why) {
    unsigned tried = 0, absent = 0;
    for (unsigned i = 0; i < plugin->mechanism_count; i++) {
        if (!mechanism_wanted(wanted, &plugin->mechanisms[i])) continue;
        struct outcome probe = child_probe(plugin, i);
        if (probe.verdict == NOT_APPLICABLE) {
            if (absent++ == 0) *ret_why = probe;
            report_absent(report, &plugin->mechanisms[i], &probe);
            continue;
        }
        tried++;
        check_mechanism(plugin, i, wanted, report);
    }
    return tried;
}

struct course {
    struct outcome listed; /* how its mechanisms could be listed */
    bool asked;            /* rules of mechanisms are wanted, and there are mechanisms */
    unsigned tried;        /* mechanisms */
    struct outcome why;    /* the first of the others could not be */
};

static int status_of(const struct report *report, const struct course *course) {
    if (course->listed.verdict != PASSED || report->failed) return SOME_BROKEN;
    return report->passed > 0 && !(course->asked && course->tried == 0) ? ALL_KEPT : CANNOT_CHECK;
}

static void explain(const struct report *report, const struct course *course) {
    if (course->listed.verdict != PASSED)
        fprintf(stderr, "nxmem-check: its mechanisms are not checked: %s\n", course->listed.why);
    else if (!report->failed && course->asked && course->tried == 0)
        fprintf(stderr, "nxmem-check: no mechanism could be opened here: %.*s; run it where there is one, or on a simulated one "
                        "(LD_LIBRARY_PATH=build/sim)\n",
                (int)strcspn(course->why.why, ","), course->why.why); /* the plugin's own words are in the report */
    else if (!report->failed && report->passed == 0)
        fprintf(stderr, "nxmem-check: nothing was tried: no rule was applicable\n");
}

int trial_run(struct plugin *plugin, const struct wanted *wanted, struct report *report) {
    struct course course = {.listed = child_enumerate(plugin)};

    if (course.listed.verdict == NOT_APPLICABLE) {
        fprintf(stderr, "nxmem-check: %s\n", course.listed.why);
        return CANNOT_CHECK;
    }
    if (course.listed.verdict == PASSED && (!knows_all(plugin, wanted) || !selects_any(plugin, wanted))) return CANNOT_CHECK;
    report_begin(report, plugin);
    check_module(plugin, wanted, report);
    course.asked = scope_wanted(wanted, false) && plugin->mechanism_count > 0;
    if (course.asked) course.tried = check_mechanisms(plugin, wanted, report, &course.why);
    int status = status_of(report, &course);
    report_end(report, status == ALL_KEPT ? PASSED : status == SOME_BROKEN ? FAILED : NOT_APPLICABLE);
    fflush(stdout);
    explain(report, &course);
    return status;
}
