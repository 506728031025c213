/* The nineteen, in the order in which they are published. */
#include "plugins/test/testplugin.h"

enum {
    A = NXMEM_CAPABILITY_ALLOCATOR,
    V = NXMEM_CAPABILITY_VIRTUAL_BACKING,
    S = NXMEM_CAPABILITY_SHARED_MAPPING,
    D = NXMEM_CAPABILITY_DEFERRED_RELEASE,
    R = NXMEM_CAPABILITY_STRUCTURED_RELEASE,
};

static const uint32_t future_state = 0x0BADF00D;

#define ALL UINT64_MAX

struct test_mechanism test_mechanisms[TEST_MECHANISMS] = {
    {.name = "eager", .capabilities = A, .level = 1},
    {.name = "lazy", .capabilities = A | V | S | D | R, .level = 1, .drain_limit = ALL},
    {.name = "short-struct", .capabilities = A | R, .level = 1, .stateless = true},
    {.name = "poisoned-tail", .capabilities = A, .level = 0, .publish = test_publish_poisoned},
    {.name = "missing-slot", .capabilities = A, .level = 1, .publish = test_publish_without_allocate},
    {.name = "bad-tier", .capabilities = A, .level = 1, .publish = test_publish_bad_tier},
    {.name = "self-retaining", .capabilities = A, .level = 1, .publish = test_publish_retained},
    {.name = "callback-probe", .capabilities = A | R, .level = 1, .asks_host = true},
    {.name = "legacy-1-0", .capabilities = A | D, .level = 0, .drain_limit = ALL},
    {.name = "quarantining", .capabilities = A | R, .level = 1, .release_state = NXMEM_RELEASE_QUARANTINED},
    {.name = "future-state", .capabilities = A | R, .level = 1, .release_state = future_state},
    {.name = "sticky", .capabilities = A | D | R, .level = 1, .drain_limit = 0},
    {.name = "callback-after-drop", .capabilities = A | D | R, .level = 1, .drain_limit = 0, .parks = true},
    {.name = "reentrant-completion", .capabilities = A | D | R, .level = 1, .drain_limit = ALL, .completes_inside = true},
    {.name = "refusing-deferred", .capabilities = A | D | R, .level = 1, .drain_limit = ALL, .refuses_to_queue = true},
    {.name = "drip", .capabilities = A | D | R, .level = 1, .drain_limit = 1},
    {.name = "ahead-of-host", .capabilities = A | R, .level = 1, .any_level = true},
    {.name = "undeclared-slot", .capabilities = A, .level = 1, .any_level = true, .undeclared = true},
    {.name = "complete-on-release", .capabilities = A | D | R, .level = 1, .drain_limit = 0, .completes_at_release = true},
};
