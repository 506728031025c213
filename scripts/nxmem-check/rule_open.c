/* Opening a mechanism, and hosts that are older or newer (sections 6, 9 and 10). */
#include <stddef.h>
#include <string.h>

#include "page.h"
#include "rules.h"
#include "text.h"
#include "verdict.h"

/* Opens with nothing required. */
static struct opened open_plainly(struct subject *subject, NxmemStatus *ret_status) {
    struct host *host = host_new(subject->agreed.agreed_minor);
    NxmemOpenRequest request = open_request(subject, subject->agreed.agreed_minor, host);
    struct opened opened;
    *ret_status = try_open(subject, &request, host, &opened);
    return opened;
}

void rule_opens(struct subject *subject, struct opened *unused) {
    NxmemStatus status;
    (void)unused;
    open_plainly(subject, &status);
    EXPECT(status.code == NXMEM_STATUS_OK, "open_allocator answers %s", status_words(&status));
}

/* The fault of a freshly opened allocator counts here when it is of this rule; one of a rule before it hides it. */
static void judge_vtable(struct subject *subject, const char *number) {
    static const char *const sequence[] = {"6.4", "6.11", "4.6", "9.6", "10.1", "10.4"};
    const char *rule = "", *fault;
    NxmemStatus status;

    struct opened opened = open_plainly(subject, &status);
    NEED(status.code == NXMEM_STATUS_OK, "open_allocator answers %s (9.4)", status_words(&status));
    fault = opened_fault(&opened, &rule);
    if (!fault) return;
    for (size_t i = 0; i < sizeof sequence / sizeof *sequence; i++) {
        if (strcmp(sequence[i], number) == 0) {
            EXPECT(strcmp(rule, number) != 0, "it opens with %s", fault);
            return;
        }
        NEED(strcmp(sequence[i], rule) != 0, "it opens with %s (%s)", fault, rule);
    }
}

void rule_vtable_readable(struct subject *subject, struct opened *unused) {
    (void)unused;
    judge_vtable(subject, "6.4");
}

void rule_vtable_slots(struct subject *subject, struct opened *unused) {
    (void)unused;
    judge_vtable(subject, "6.11");
}

void rule_vtable_identity(struct subject *subject, struct opened *unused) {
    (void)unused;
    judge_vtable(subject, "4.6");
    struct opened first = must_open(subject), second = must_open(subject);
    EXPECT(first.slots.mechanism_id != second.slots.mechanism_id, "two opens at once both have id %llu",
           (unsigned long long)first.slots.mechanism_id);
    opened_give_back(&second);
    struct opened third = must_open(subject);
    EXPECT(third.slots.mechanism_id != first.slots.mechanism_id, "two opens at once both have id %llu",
           (unsigned long long)first.slots.mechanism_id);
}

/* Two of 9.6, told apart by what is wrong. */
void rule_vtable_device(struct subject *subject, struct opened *unused) {
    NxmemStatus status;
    const char *rule, *fault;
    (void)unused;
    struct opened opened = open_plainly(subject, &status);
    NEED(status.code == NXMEM_STATUS_OK, "open_allocator answers %s (9.4)", status_words(&status));
    fault = opened_fault(&opened, &rule);
    NEED(!fault || rule[0] != '6', "it opens with %s (%s)", fault, rule);
    const NxmemDeviceId *is = &opened.slots.device, *due = &subject->factory->device;
    EXPECT(is->tier == due->tier && is->index == due->index, "tier %u index %u, where the factory says tier %u index %u", is->tier, is->index,
           due->tier, due->index);
}

void rule_vtable_bits(struct subject *subject, struct opened *unused) {
    NxmemStatus status;
    const char *rule, *fault;
    (void)unused;
    struct opened opened = open_plainly(subject, &status);
    NEED(status.code == NXMEM_STATUS_OK, "open_allocator answers %s (9.4)", status_words(&status));
    fault = opened_fault(&opened, &rule);
    NEED(!fault || rule[0] != '6', "it opens with %s (%s)", fault, rule);
    uint64_t flags = opened.slots.capability_flags;
    EXPECT(flags & NXMEM_CAPABILITY_ALLOCATOR, "no ALLOCATOR bit in 0x%llx", (unsigned long long)flags);
    EXPECT((flags & ~NXMEM_CAPABILITY_KNOWN_MASK) == 0, "capabilities 0x%llx, of which 0x1f are known", (unsigned long long)flags);
}

void rule_vtable_optional(struct subject *subject, struct opened *unused) {
    (void)unused;
    judge_vtable(subject, "10.1");
}

void rule_vtable_deferred(struct subject *subject, struct opened *unused) {
    (void)unused;
    judge_vtable(subject, "10.4");
}

void rule_vtable_name(struct subject *subject, struct opened *unused) {
    (void)unused;
    struct opened opened = must_open(subject);
    if (!opened.slots.name) return;
    doing("reading the allocator's name");
    size_t length = strnlen((const char *)opened.slots.name, NAME_LIMIT);
    EXPECT(length < NAME_LIMIT, "the name does not end within %d bytes", NAME_LIMIT);
    EXPECT(is_utf8(opened.slots.name, length), "the name is not UTF-8");
}

/* --- what an open refuses and grants --- */

static void expect_refusal(struct subject *subject, const NxmemOpenRequest *request, struct host *host, uint32_t due, const char *what) {
    struct opened opened;
    NxmemStatus status = try_open(subject, request, host, &opened);
    if (status.code == NXMEM_STATUS_OK) opened_give_back(&opened);
    EXPECT(status.code == due, "%s is answered %s", what, status_words(&status));
}

void rule_refuses_device(struct subject *subject, struct opened *unused) {
    struct host *host = host_new(subject->agreed.agreed_minor);
    NxmemOpenRequest request = open_request(subject, subject->agreed.agreed_minor, host);
    (void)unused;
    must_open(subject);
    request.device.index += 1000;
    expect_refusal(subject, &request, host, NXMEM_STATUS_WRONG_DEVICE, "another index");
    request.device = subject->factory->device;
    request.device.tier = request.device.tier == NXMEM_TIER_DISK ? NXMEM_TIER_HOST : NXMEM_TIER_DISK;
    expect_refusal(subject, &request, host, NXMEM_STATUS_WRONG_DEVICE, "another tier");
    request.device.tier = 4242;
    expect_refusal(subject, &request, host, NXMEM_STATUS_WRONG_DEVICE, "an unknown tier");
}

void rule_refuses_bits(struct subject *subject, struct opened *unused) {
    (void)unused;
    struct opened opened = must_open(subject);
    NxmemOpenRequest request = open_request(subject, subject->agreed.agreed_minor, opened.host);
    for (unsigned bit = 1; bit <= 40; bit += bit == 4 ? 36 : 1) {
        request.required_capability_flags = UINT64_C(1) << bit;
        if (opened.slots.capability_flags & request.required_capability_flags) continue;
        expect_refusal(subject, &request, opened.host, NXMEM_STATUS_UNSUPPORTED_CAPABILITY, "a capability that it lacks");
    }
}

void rule_grants_bits(struct subject *subject, struct opened *unused) {
    (void)unused;
    struct opened opened = must_open(subject), again;
    NxmemOpenRequest request = open_request(subject, subject->agreed.agreed_minor, opened.host);
    request.required_capability_flags = opened.slots.capability_flags;
    NxmemStatus status = try_open(subject, &request, opened.host, &again);
    EXPECT(status.code == NXMEM_STATUS_OK, "0x%llx, which it claims, is answered %s", (unsigned long long)request.required_capability_flags,
           status_words(&status));
    const char *rule;
    NEED(!opened_fault(&again, &rule), "the second open cannot be read");
    EXPECT((again.slots.capability_flags & request.required_capability_flags) == request.required_capability_flags,
           "0x%llx is required and 0x%llx claimed", (unsigned long long)request.required_capability_flags,
           (unsigned long long)again.slots.capability_flags);
}

void rule_failed_open(struct subject *subject, struct opened *unused) {
    struct host *host = host_new(subject->agreed.agreed_minor);
    NxmemOpenRequest request = open_request(subject, subject->agreed.agreed_minor, host);
    NxmemUnloadReport report;
    struct opened opened;
    (void)unused;
    struct opened usual = must_open(subject);
    opened_give_back(&usual);
    NEED(report_is_zero_soon(subject, &report), "the report does not return to zero (18.10)");
    request.required_capability_flags = UINT64_C(1) << 40;
    NxmemStatus status = try_open(subject, &request, host, &opened);
    NEED(status.code != NXMEM_STATUS_OK, "an impossible open is answered OK (9.4)");
    EXPECT(report_is_zero_soon(subject, &report), "after a refused open it reports %s", report_words(&report));
}

void rule_open_borrows(struct subject *subject, struct opened *unused) {
    NxmemOpenRequest *request = page_ending(sizeof *request);
    struct host *host = host_new(subject->agreed.agreed_minor);
    struct opened opened;
    const char *rule;
    (void)unused;
    *request = open_request(subject, subject->agreed.agreed_minor, host);
    NxmemStatus status = try_open(subject, request, host, &opened);
    NEED(status.code == NXMEM_STATUS_OK && !opened_fault(&opened, &rule), "the mechanism does not open");
    page_close(request);
    struct block block = must_allocate(&opened, 4096);
    must_release(&opened, &block);
    opened_give_back(&opened);
}

/* --- hosts that bring less, or more --- */

static void serves(struct opened *opened, const char *whom) {
    struct block block;
    uint64_t ticket, retired;
    NxmemStatus status = try_allocate(opened, 4096, USUAL_ALIGN, &block);
    EXPECT(status.code == NXMEM_STATUS_OK && block.result.ptr, "%s allocates and is answered %s", whom, status_words(&status));
    enum ending ending = terminal_release(opened, &block);
    EXPECT(ending == GONE || ending == KEPT, "%s cannot release", whom);
    if (!(opened->slots.capability_flags & NXMEM_CAPABILITY_DEFERRED_RELEASE)) return;
    status = try_allocate(opened, 4096, USUAL_ALIGN, &block);
    if (status.code != NXMEM_STATUS_OK || try_enqueue(opened, &block, &ticket).code != NXMEM_STATUS_OK) return;
    try_drain(opened, UINT64_MAX, &retired);
}

void rule_no_callbacks(struct subject *subject, struct opened *unused) {
    (void)unused;
    struct block probe;
    struct opened usual = must_open(subject);
    NEED(try_allocate(&usual, 4096, USUAL_ALIGN, &probe).code == NXMEM_STATUS_OK && probe.result.ptr, "it does not allocate (11.5)");
    must_release(&usual, &probe);
    struct opened opened = must_open_at(subject, subject->agreed.agreed_minor, NULL);
    serves(&opened, "a host without callbacks");
    opened_give_back(&opened);
    struct host *host = host_new(subject->agreed.agreed_minor);
    host->table.request_reclaim = NULL;
    host->table.release_completed = NULL;
    opened = must_open_at(subject, subject->agreed.agreed_minor, host);
    serves(&opened, "a host with empty callbacks");
    opened_give_back(&opened);
}

/* As long as two slots of it are missing, and nothing behind it. */
void rule_short_callbacks(struct subject *subject, struct opened *unused) {
    struct host *host = host_new(subject->agreed.agreed_minor);
    const uint32_t size = offsetof(NxmemHostCallbacks, request_reclaim);
    NxmemHostCallbacks *table = page_ending(size);
    NxmemOpenRequest request = open_request(subject, subject->agreed.agreed_minor, host);
    struct opened opened;
    const char *rule;
    (void)unused;
    must_open(subject);
    memcpy(table, &host->table, size);
    table->struct_size = size;
    request.callbacks = table;
    doing("open_allocator with a callback table of 16 bytes");
    NxmemStatus status = try_open(subject, &request, host, &opened);
    doing("open_allocator with a callback table of 16 bytes");
    if (status.code != NXMEM_STATUS_OK) return; /* refused: nothing was read */
    NEED(!opened_fault(&opened, &rule), "the mechanism does not open");
    struct block block = must_allocate(&opened, 4096);
    must_release(&opened, &block);
    opened_give_back(&opened);
}

void rule_older_host(struct subject *subject, struct opened *unused) {
    (void)unused;
    struct block block;
    struct opened usual = must_open(subject);
    block = must_allocate(&usual, 4096);
    must_release(&usual, &block);
    must_negotiate(subject, 0);
    struct host *host = host_new(0);
    NxmemOpenRequest request = open_request(subject, 0, host);
    struct opened opened;
    const char *rule;
    NxmemStatus status = try_open(subject, &request, host, &opened);
    EXPECT(status.code == NXMEM_STATUS_OK, "minor 0 is agreed on, and open_allocator answers %s", status_words(&status));
    const char *fault = opened_fault(&opened, &rule);
    EXPECT(!fault, "at minor 0 it opens with %s", fault);
    host->mechanism_id = opened.slots.mechanism_id;
    EXPECT(!(opened.slots.capability_flags & NXMEM_CAPABILITY_STRUCTURED_RELEASE), "STRUCTURED_RELEASE is claimed at minor 0");
    serves(&opened, "a host of minor 0");
    opened_give_back(&opened);
}

struct longer_open {
    NxmemOpenRequest known;
    uint64_t more[4];
};

struct longer_request {
    NxmemAllocRequest known;
    uint64_t more[4];
};

struct longer_result {
    NxmemAllocResult known;
    uint64_t more[4];
};

struct longer_allocation {
    NxmemAllocation known;
    uint64_t more[4];
};

void rule_newer_host(struct subject *subject, struct opened *unused) {
    struct host *host = host_new(subject->agreed.agreed_minor);
    struct longer_open request = {open_request(subject, subject->agreed.agreed_minor, host), {7, 7, 7, 7}};
    struct opened opened;
    const char *rule;
    uint64_t unmapped = 0;
    (void)unused;
    struct opened usual = must_open(subject);
    struct block probe = must_allocate(&usual, 4096);
    must_release(&usual, &probe);
    request.known.struct_size = sizeof request;
    NxmemStatus status = try_open(subject, &request.known, host, &opened);
    EXPECT(status.code == NXMEM_STATUS_OK, "an open request of %zu bytes is answered %s", sizeof request, status_words(&status));
    NEED(!opened_fault(&opened, &rule), "the mechanism does not open");

    struct longer_request wanted = {alloc_request(&opened, 4096, USUAL_ALIGN), {7, 7, 7, 7}};
    struct longer_result result = {{.struct_size = sizeof result}, {7, 7, 7, 7}};
    wanted.known.struct_size = sizeof wanted;
    doing("allocate with longer structs");
    status = opened.slots.allocate(opened.slots.ctx, &wanted.known, &result.known);
    EXPECT(status.code == NXMEM_STATUS_OK, "an allocation request of %zu bytes is answered %s", sizeof wanted, status_words(&status));
    for (size_t i = 0; i < 4; i++) EXPECT(result.more[i] == 7, "allocate writes behind the 32 bytes that minor 1 knows");

    struct longer_allocation name = {allocation_of(&wanted.known, &result.known), {7, 7, 7, 7}};
    name.known.struct_size = sizeof name;
    doing("deallocate with a longer struct");
    status = opened.slots.deallocate(opened.slots.ctx, &name.known, &unmapped);
    EXPECT(status.code == NXMEM_STATUS_OK, "an allocation named in %zu bytes is answered %s", sizeof name, status_words(&status));
    opened_give_back(&opened);
}

void rule_factory_first(struct subject *subject, struct opened *unused) {
    (void)unused;
    struct opened opened = must_open(subject);
    struct block probe = must_allocate(&opened, 4096);
    must_release(&opened, &probe);
    struct block first = must_allocate(&opened, 4096);
    doing("the factory's release");
    subject->factory->release(subject->factory->ctx);
    serves(&opened, "an allocator whose factory is released");
    must_release(&opened, &first);
    opened_give_back(&opened);
}

/* --- the companion --- */

void rule_companion(struct subject *subject, struct opened *unused) {
    const NxmemCudaVtable *companion = NULL;
    uint32_t size;
    (void)unused;
    NEED(subject->query_cuda, "there is no %s", NXMEM_SYMBOL_QUERY_CUDA);
    struct opened opened = must_open(subject);
    doing("NxmemQueryCuda");
    NxmemStatus status = subject->query_cuda(opened.published, &companion);
    if (status.code == NXMEM_STATUS_UNSUPPORTED_CAPABILITY) return;
    EXPECT(status.code == NXMEM_STATUS_OK, "it answers %s", status_words(&status));
    EXPECT(companion, "OK with NULL");
    EXPECT((uintptr_t)companion % _Alignof(NxmemCudaVtable) == 0, "a misaligned companion");
    memcpy(&size, companion, sizeof size);
    EXPECT(size >= offsetof(NxmemCudaVtable, order_passed), "a companion of %u bytes, without its slots", size);
    EXPECT(companion->mechanism_id == opened.slots.mechanism_id, "a companion of mechanism %llu, for mechanism %llu",
           (unsigned long long)companion->mechanism_id, (unsigned long long)opened.slots.mechanism_id);
}
