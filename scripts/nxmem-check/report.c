#include "report.h"

#include <stdio.h>
#include <string.h>

#include "text.h"

static void end_series(struct report *report);

static const char *verdict_word(enum verdict verdict) {
    return verdict == PASSED ? "pass" : verdict == FAILED ? "fail" : "n/a";
}

/* As a JSON string. What is no UTF-8, which paths and plugins may well contain, is told as U+FFFD. */
static void print_string(const char *text) {
    const unsigned char *at = (const unsigned char *)text;
    putchar('"');
    while (*at) {
        size_t length = utf8_length(at, strlen((const char *)at));
        if (length == 0)
            printf("\\ufffd");
        else if (*at == '"' || *at == '\\')
            printf("\\%c", *at);
        else if (*at < ' ' || *at == 0x7F)
            printf("\\u%04x", *at);
        else
            fwrite(at, 1, length, stdout);
        at += length ? length : 1;
    }
    putchar('"');
}

/* A plugin's words, and a path's, end no line of ours and move no cursor: also not by the controls from U+0080 to U+009F. */
static void print_plain(const char *words) {
    const unsigned char *at = (const unsigned char *)words;
    while (*at) {
        size_t length = utf8_length(at, strlen((const char *)at));
        bool control = *at < ' ' || *at == 0x7F || (*at == 0xC2 && at[1] < 0xA0);
        if (length == 0 || control)
            putchar('?');
        else
            fwrite(at, 1, length, stdout);
        at += length ? length : 1;
    }
}

void report_begin(struct report *report, const struct plugin *plugin) {
    if (!report->json) {
        printf("nxmem-check %s: ", NXM_VERSION);
        print_plain(plugin->path);
        printf("\n");
        return;
    }
    printf("{\"tool\":\"nxmem-check\",\"version\":\"%s\",\"plugin\":", NXM_VERSION);
    print_string(plugin->path);
    printf(",\"results\":[");
}

static void print_heading(const struct mechanism *first, const struct mechanism *last) {
    printf("\nmechanism ");
    print_plain(first->name);
    printf(" (%s %u", tier_name(first->device.tier), first->device.index);
    if (last->device.index != first->device.index) printf(" to %u", last->device.index);
    printf(")\n");
}

void report_heading(struct report *report, const struct mechanism *mechanism) {
    end_series(report);
    if (report->json) return;
    if (mechanism)
        print_heading(mechanism, mechanism);
    else
        printf("\nmodule\n");
}

static void print_json(struct report *report, const struct mechanism *mechanism, const struct rule *rule, const struct outcome *outcome) {
    printf("%s\n{\"mechanism\":", report->lines++ ? "," : "");
    if (mechanism) {
        print_string(mechanism->name);
        printf(",\"tier\":\"%s\",\"index\":%u", tier_name(mechanism->device.tier), mechanism->device.index);
    } else {
        printf("null");
    }
    printf(",\"rule\":\"%s\",\"name\":\"%s\",\"verdict\":\"%s\"", rule ? rule->number : "all", rule ? rule->name : "all",
           verdict_word(outcome->verdict));
    if (outcome->why[0]) {
        printf(",\"why\":");
        print_string(outcome->why);
    }
    printf("}");
}

static void print_text(const struct report *report, const struct rule *rule, const struct outcome *outcome) {
    static const char *const colours[] = {"", "\033[32m", "\033[1;31m", "\033[2m"};
    const char *word = outcome->verdict == FAILED ? "FAIL" : verdict_word(outcome->verdict);
    printf("  %s%-4s%s  %-7s %s%s", report->colours ? colours[outcome->verdict] : "", word, report->colours ? "\033[0m" : "",
           rule ? rule->number : "all", rule ? rule->name : "rules", outcome->why[0] ? ": " : "");
    print_plain(outcome->why);
    printf("\n");
}

void report_line(struct report *report, const struct mechanism *mechanism, const struct rule *rule, const struct outcome *outcome) {
    if (outcome->verdict == PASSED)
        report->passed++;
    else if (outcome->verdict == FAILED)
        report->failed++;
    else
        report->not_applicable++;
    if (report->json)
        print_json(report, mechanism, rule, outcome);
    else
        print_text(report, rule, outcome);
}

static bool continues(const struct report *report, const struct mechanism *mechanism) {
    const struct mechanism *last = &report->last_absent;
    return report->in_series && strcmp(last->name, mechanism->name) == 0 && last->device.tier == mechanism->device.tier &&
           last->device.index + 1 == mechanism->device.index;
}

static void end_series(struct report *report) {
    if (!report->in_series) return;
    report->in_series = false;
    print_heading(&report->first_absent, &report->last_absent);
    print_text(report, NULL, &report->absent);
}

void report_absent(struct report *report, const struct mechanism *mechanism, const struct outcome *outcome) {
    report->not_applicable++;
    if (report->json) {
        print_json(report, mechanism, NULL, outcome);
        return;
    }
    if (!continues(report, mechanism)) {
        end_series(report);
        report->first_absent = *mechanism;
        report->absent = *outcome;
        report->in_series = true;
    }
    report->last_absent = *mechanism;
}

void report_end(struct report *report, enum verdict verdict) {
    end_series(report);
    if (report->json)
        printf("\n],\"passed\":%u,\"failed\":%u,\"not_applicable\":%u,\"verdict\":\"%s\"}\n", report->passed, report->failed,
               report->not_applicable, verdict_word(verdict));
    else
        printf("\n%s%u passed, %u failed, %u not applicable\n", report->passed || report->failed ? "" : "nothing was tried: ", report->passed,
               report->failed, report->not_applicable);
}
