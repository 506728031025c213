/* The plugin under test, as a strict host sees it, and what rules do with it. Lives in one child process, which
 * tries one rule; nothing here is undone but by the rule itself.
 *
 * Names: `try_` calls a slot and returns its status. `must_` gets what a rule needs in order to be tried, and
 * skips the rule when the plugin does not give it: another rule says that. */
#ifndef NXMEM_CHECK_SUBJECT_H
#define NXMEM_CHECK_SUBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host.h"
#include "nxmem_cuda.h"
#include "nxmem_memory_abi.h"

enum {
    MAX_FACTORIES = 64,
    NAME_LIMIT = 4096, /* a name longer than this has no end */
    USUAL_ALIGN = 256,
};

struct subject {
    void *library;
    NxmemNegotiateFn negotiate;
    NxmemCreateAllocatorFactoriesFn create;
    NxmemQueryUnloadReadinessFn readiness;
    NxmemQueryCudaFn query_cuda; /* NULL when there is none */
    NxmemNegotiateResponse agreed;
    const NxmemAllocatorFactoryVtable *factories[MAX_FACTORIES];
    uint64_t factory_count;
    const NxmemAllocatorFactoryVtable *factory; /* of the mechanism under test */
    unsigned limit_ms;                          /* for waits inside a rule */
};

/* An opened mechanism. The vtables are copies, cut to what was claimed. */
struct opened {
    struct subject *subject;
    const NxmemAllocatorVtable *published;
    NxmemAllocatorVtable slots;
    NxmemVirtualBackingVtable backing;
    NxmemSharedMappingVtable mapping;
    struct host *host; /* NULL: opened without callbacks */
};

struct block {
    NxmemAllocation name;
    NxmemAllocResult result;
};

enum ending { GONE, KEPT, LIVE, IN_DOUBT };

/* --- loading --- */

/* False with a reason: the library cannot be opened. Missing exports are left NULL. */
bool subject_load(struct subject *subject, const char *path, char *ret_why, size_t size);
NxmemNegotiateRequest negotiate_request(uint32_t minor_max);
NxmemNegotiateResponse negotiate_response(void);
void must_negotiate(struct subject *subject, uint32_t minor_max);
void must_enumerate(struct subject *subject);

/* Whether four bytes and then the whole can be read there; NULL or what is wrong with it. */
const char *factory_fault(const NxmemAllocatorFactoryVtable *factory);

NxmemStatus try_report(struct subject *subject, NxmemUnloadReport *ret_report);
NxmemUnloadReport must_report(struct subject *subject);
uint64_t report_total(const NxmemUnloadReport *report);
/* Asks for a while, for threads of the plugin may need it. True when every axis became zero. */
bool report_is_zero_soon(struct subject *subject, NxmemUnloadReport *ret_last);
/* An open and its release leave the report as it was, and nothing but allocators is counted. */
void must_balance(struct subject *subject);
const char *report_words(const NxmemUnloadReport *report);

/* --- opening --- */

NxmemOpenRequest open_request(const struct subject *subject, uint32_t minor, const struct host *host);
/* Calls the slot and keeps what it published, unread. */
NxmemStatus try_open(struct subject *subject, const NxmemOpenRequest *request, struct host *host, struct opened *ret_opened);
/* NULL, or what forbids using the published vtable; *ret_rule is the rule that says so. Fills the copies. */
const char *opened_fault(struct opened *opened, const char **ret_rule);
struct opened must_open_at(struct subject *subject, uint32_t minor, struct host *host);
struct opened must_open(struct subject *subject);
/* The one release that is owed after an OK, if it can be found at all. */
void opened_give_back(struct opened *opened);

/* --- blocks --- */

uint64_t next_id(void);
NxmemAllocRequest alloc_request(const struct opened *opened, uint64_t bytes, uint64_t align);
NxmemAllocation allocation_of(const NxmemAllocRequest *request, const NxmemAllocResult *result);
NxmemStatus try_allocate(const struct opened *opened, uint64_t bytes, uint64_t align, struct block *ret_block);
struct block must_allocate(const struct opened *opened, uint64_t bytes);

/* The most that its release can give back: what was asked, or what the plugin said it took. */
uint64_t credit_limit(const struct block *block);

bool is_structured(const struct opened *opened);
NxmemStatus try_deallocate(const struct opened *opened, const NxmemAllocation *name, uint64_t *ret_unmapped);
NxmemStatus try_release(const struct opened *opened, const NxmemAllocation *name, NxmemReleaseOutcome *ret_outcome);
/* By whichever terminal slot a host would take. */
enum ending terminal_release(const struct opened *opened, const struct block *block);
void must_release(const struct opened *opened, const struct block *block);

bool is_touchable(const struct opened *opened); /* host memory: the rule may write to it */
/* A block of 0 bytes has an address of its own, too. */
bool blocks_overlap(const struct block *a, const struct block *b);
void fill(const struct block *block);
bool is_filled(const struct block *block);

/* --- the queue --- */

NxmemStatus try_enqueue(const struct opened *opened, const struct block *block, uint64_t *ret_ticket);
void must_enqueue(const struct opened *opened, const struct block *block);
NxmemStatus try_drain(const struct opened *opened, uint64_t max, uint64_t *ret_retired);
/* Drains, and waits a while for completions that come from a thread. True: none is outstanding. */
bool settle(const struct opened *opened);

void sleep_ms(unsigned milliseconds);

#endif
