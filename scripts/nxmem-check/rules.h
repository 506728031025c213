/* The table of rules (rules.def) and their functions, each tried in a process of its own. A rule that returns has
 * passed; otherwise it ends the process with its verdict. */
#ifndef NXMEM_CHECK_RULES_H
#define NXMEM_CHECK_RULES_H

#include <stdint.h>

#include "subject.h"

enum scope { MODULE, FACTORY, ALLOCATOR };

struct rule {
    const char *number, *name, *what;
    enum scope scope;
    uint64_t needs; /* capability bits of the allocator */
    void (*try)(struct subject *subject, struct opened *opened); /* `opened` for ALLOCATOR only, else NULL */
};

extern const struct rule rules[];
extern const unsigned rule_count;

#define RULE(function, scope, needs, number, name, what) void rule_##function(struct subject *subject, struct opened *opened);
#include "rules.def"
#undef RULE

#endif
