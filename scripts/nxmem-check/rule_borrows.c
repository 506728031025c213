/* What a plugin may keep of what it was passed: nothing once the call has returned (4.2, 5.1.2), and the callback table until
 * its allocator is gone (16.1). Such memory is closed here, and a plugin that looks at it crashes. */
#include <string.h>

#include "page.h"
#include "rules.h"
#include "text.h"
#include "verdict.h"

enum { AFTERWARDS_MS = 10 };

#define MORE_THAN_THERE_IS (UINT64_C(1) << 44)

/* What it can do is for other rules; here it is made to do something. */
static void use(struct opened *opened) {
    struct block block;
    uint64_t ticket;
    if (try_allocate(opened, MORE_THAN_THERE_IS, USUAL_ALIGN, &block).code == NXMEM_STATUS_OK) terminal_release(opened, &block);
    if (try_allocate(opened, 4096, USUAL_ALIGN, &block).code == NXMEM_STATUS_OK) terminal_release(opened, &block);
    if (!(opened->slots.capability_flags & NXMEM_CAPABILITY_DEFERRED_RELEASE)) return;
    if (try_allocate(opened, 4096, USUAL_ALIGN, &block).code == NXMEM_STATUS_OK) try_enqueue(opened, &block, &ticket);
    settle(opened);
}

void rule_negotiation_borrows(struct subject *subject, struct opened *unused) {
    NxmemNegotiateRequest *request = page_ending(sizeof *request);
    NxmemNegotiateResponse *response = page_ending(sizeof *response);
    struct host *host = host_new(NXMEM_ABI_MINOR);
    NxmemUnloadReport report;
    struct opened opened;
    const char *rule;
    (void)unused;
    NEED(subject->negotiate, "there is no NxmemNegotiate (7.2)");
    *request = negotiate_request(NXMEM_ABI_MINOR);
    *response = negotiate_response();
    doing("NxmemNegotiate");
    NxmemStatus status = subject->negotiate(request, response);
    NEED(status.code == NXMEM_STATUS_OK, "negotiation answers %s (5.2)", status_words(&status));
    subject->agreed = *response;
    page_close(request);
    page_close(response);
    must_enumerate(subject);
    try_report(subject, &report);
    if (subject->factory_count == 0 || factory_fault(subject->factories[0])) return;
    subject->factory = subject->factories[0];
    NxmemOpenRequest wish = open_request(subject, subject->agreed.agreed_minor, host);
    if (subject->factory->device.tier == NXMEM_TIER_DEVICE) return; /* wants more than this rule has set up */
    if (try_open(subject, &wish, host, &opened).code != NXMEM_STATUS_OK || opened_fault(&opened, &rule)) return;
    host->mechanism_id = opened.slots.mechanism_id;
    use(&opened);
}

void rule_queue_borrows(struct subject *subject, struct opened *opened) {
    NxmemAllocation *name = page_ending(sizeof *name);
    uint64_t *ticket = page_ending(sizeof *ticket);
    struct block block = must_allocate(opened, 5000);
    (void)subject;
    *name = block.name;
    *ticket = 0;
    host_expect(opened->host, name->allocation_id, name->bytes, credit_limit(&block));
    doing("enqueue_release");
    NxmemStatus status = opened->slots.enqueue_release(opened->slots.ctx, name, ticket);
    NEED(status.code == NXMEM_STATUS_OK, "enqueue_release answers %s", status_words(&status));
    host_given(opened->host, name->allocation_id, *ticket);
    page_close(name);
    page_close(ticket);
    NEED(settle(opened), "queues do not empty (15.4)");
}

/* A table of its own for one open; the host behind it stays. */
static NxmemHostCallbacks *table_of(struct host *host) {
    NxmemHostCallbacks *table = page_ending(sizeof *table);
    *table = host->table;
    return table;
}

static bool is_queue_empty_soon(struct subject *subject) {
    for (unsigned waited = 0; waited < subject->limit_ms / 8; waited += 5) {
        if (must_report(subject).queued_releases == 0) return true;
        sleep_ms(5);
    }
    return false;
}

void rule_callbacks_end(struct subject *subject, struct opened *opened) {
    struct host *host = host_new(subject->agreed.agreed_minor);
    NxmemHostCallbacks *refused = table_of(host), *table = table_of(host);
    NxmemOpenRequest request = open_request(subject, subject->agreed.agreed_minor, host);
    struct opened other;
    const char *rule;
    use(opened);
    request.callbacks = refused;
    request.required_capability_flags = UINT64_C(1) << 40;
    NxmemStatus status = try_open(subject, &request, host, &other);
    NEED(status.code != NXMEM_STATUS_OK, "an impossible open is answered OK (9.4)");
    page_close(refused);
    request.callbacks = table;
    request.required_capability_flags = 0;
    status = try_open(subject, &request, host, &other);
    NEED(status.code == NXMEM_STATUS_OK && !opened_fault(&other, &rule), "the second open answers %s (9.4)", status_words(&status));
    host->mechanism_id = other.slots.mechanism_id;
    use(&other);
    NEED(host_outstanding(host) == 0, "queues do not empty (15.4)");
    opened_give_back(&other);
    NEED(is_queue_empty_soon(subject), "the report does not return to zero (18.10)");
    page_close(table);
    use(opened);
    sleep_ms(AFTERWARDS_MS);
}
