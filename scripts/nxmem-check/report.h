/* The report on standard output: a line for each rule, or one JSON object. One thread. */
#ifndef NXMEM_CHECK_REPORT_H
#define NXMEM_CHECK_REPORT_H

#include <stdbool.h>

#include "child.h"

struct report {
    bool json, colours;
    unsigned passed, failed, not_applicable;
    unsigned lines;
    struct mechanism first_absent, last_absent; /* of a series that is not told yet */
    struct outcome absent;
    bool in_series;
};

void report_begin(struct report *report, const struct plugin *plugin);
void report_heading(struct report *report, const struct mechanism *mechanism); /* NULL: the module */
/* None of its rules can be tried. Such mechanisms of one name and tier are told in one line, by their numbers. */
void report_absent(struct report *report, const struct mechanism *mechanism, const struct outcome *outcome);
void report_line(struct report *report, const struct mechanism *mechanism, const struct rule *rule, const struct outcome *outcome);
/* With the verdict on the whole. */
void report_end(struct report *report, enum verdict verdict);

#endif
