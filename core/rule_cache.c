#include "rule_cache.h"

struct nxm_rule_slot nxm_rule_slots[1u << NXM_RULE_SLOTS_LOG2];
