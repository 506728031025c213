/* A whole run of the tool: which rules are tried on what, and what the exit status says. One thread. */
#ifndef NXMEM_CHECK_TRIAL_H
#define NXMEM_CHECK_TRIAL_H

#include <stdbool.h>

#include "child.h"
#include "report.h"

enum { ALL_KEPT = 0, SOME_BROKEN = 1, CANNOT_CHECK = 2, MAX_WORDS = 32 };

/* The words of the command line, borrowed. None of a kind: all of them. */
struct wanted {
    const char *rules[MAX_WORDS], *mechanisms[MAX_WORDS];
    unsigned rule_words, mechanism_words;
};

bool is_rule_word(const char *word); /* a rule's name, or the number of one or more */

/* Fills the plugin's list of mechanisms, tries and reports; what is wrong beside the rules goes to standard error. The exit
 * status: ALL_KEPT only if something was tried. */
int trial_run(struct plugin *plugin, const struct wanted *wanted, struct report *report);

#endif
