/* The fake plugin's library: the three exports and nothing else. What they do lives in the test's own
 * process (support/fake.c), so that a test reads and sets it without a word to the loader. Compiled once per
 * plugin, with FAKE_<name> defined. */
#include "../support/fake.h"

#define EXPORT __attribute__((visibility("default")))

#ifndef FAKE_without_negotiate
EXPORT NxmemStatus NxmemNegotiate(const NxmemNegotiateRequest *request, NxmemNegotiateResponse *response);
NxmemStatus NxmemNegotiate(const NxmemNegotiateRequest *request, NxmemNegotiateResponse *response)
{
    return fake_negotiate(request, response);
}
#endif

#ifndef FAKE_without_factories
EXPORT NxmemStatus NxmemCreateAllocatorFactories(const NxmemAllocatorFactoryVtable **factories, uint64_t max_factories,
                                                 uint64_t *count);
NxmemStatus NxmemCreateAllocatorFactories(const NxmemAllocatorFactoryVtable **factories, uint64_t max_factories,
                                          uint64_t *count)
{
    return fake_create(factories, max_factories, count);
}
#endif

#ifndef FAKE_without_readiness
EXPORT NxmemStatus NxmemQueryUnloadReadiness(NxmemUnloadReport *report);
NxmemStatus NxmemQueryUnloadReadiness(NxmemUnloadReport *report)
{
    return fake_query(report);
}
#endif

/* Runs when the code is really unmapped. */
__attribute__((destructor)) static void unmapped(void)
{
    fake.unmapped++;
}
