#include "rules.h"

#define DEFERRED NXMEM_CAPABILITY_DEFERRED_RELEASE
#define STRUCTURED NXMEM_CAPABILITY_STRUCTURED_RELEASE
#define BACKING NXMEM_CAPABILITY_VIRTUAL_BACKING
#define MAPPING NXMEM_CAPABILITY_SHARED_MAPPING

const struct rule rules[] = {
#define RULE(function, scope, needs, number, name, what) {number, name, what, scope, needs, rule_##function},
#include "rules.def"
#undef RULE
};
const unsigned rule_count = sizeof rules / sizeof *rules;
