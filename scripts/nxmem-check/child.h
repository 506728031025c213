/* The plugin is loaded in child processes only: one for its list of mechanisms, one for each rule. A crash, an exit and a
 * hang are verdicts like others. One thread. */
#ifndef NXMEM_CHECK_CHILD_H
#define NXMEM_CHECK_CHILD_H

#include "rules.h"
#include "verdict.h"

enum { MECHANISM_NAME_BYTES = 64 };

struct mechanism {
    char name[MECHANISM_NAME_BYTES]; /* cut, printable */
    NxmemDeviceId device;
};

struct plugin {
    const char *path;
    unsigned timeout; /* seconds for each child */
    struct mechanism mechanisms[MAX_FACTORIES];
    unsigned mechanism_count;
};

struct outcome {
    enum verdict verdict;
    char why[768];
};

/* Fills the list. FAILED when there is none to be had; NOT_APPLICABLE when the library cannot be opened at all. */
struct outcome child_enumerate(struct plugin *plugin);

/* PASSED: the mechanism's rules can be tried. NOT_APPLICABLE: its device is not in this machine. */
struct outcome child_probe(const struct plugin *plugin, unsigned mechanism);

/* `mechanism` is not looked at for a MODULE rule. */
struct outcome child_try(const struct plugin *plugin, unsigned mechanism, const struct rule *rule);

#endif
