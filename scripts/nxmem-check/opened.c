/* Opening a mechanism, and reading what it published as a strict host does. */
#include <stdio.h>
#include <string.h>

#include "subject.h"
#include "text.h"
#include "verdict.h"

enum { MINOR_0_BYTES = offsetof(NxmemAllocatorVtable, release_allocation), REACHES_NOTHING = offsetof(NxmemAllocatorVtable, allocate) };

NxmemOpenRequest open_request(const struct subject *subject, uint32_t minor, const struct host *host) {
    return (NxmemOpenRequest){.struct_size = sizeof(NxmemOpenRequest),
                              .abi_minor = minor,
                              .device = subject->factory->device,
                              .callbacks = host ? &host->table : NULL};
}

NxmemStatus try_open(struct subject *subject, const NxmemOpenRequest *request, struct host *host, struct opened *ret_opened) {
    memset(ret_opened, 0, sizeof *ret_opened);
    ret_opened->subject = subject;
    ret_opened->host = host;
    doing("open_allocator");
    return subject->factory->open_allocator(subject->factory->ctx, request, &ret_opened->published);
}

/* By prefix; what is missing reads as zero. NULL or what is wrong. */
static const char *read_prefix(const void *from, size_t floor, size_t own, void *ret_copy) {
    uint32_t size;
    if (!from) return "NULL";
    if ((uintptr_t)from % 8 != 0) return "a misaligned address";
    memcpy(&size, from, sizeof size);
    if (size < floor) return "a struct too short to be read";
    memset(ret_copy, 0, own);
    memcpy(ret_copy, from, size < own ? size : own);
    return NULL;
}

static const char *prefix_fault(struct opened *opened) {
    NxmemAllocatorVtable *slots = &opened->slots;
    const char *fault = read_prefix(opened->published, REACHES_NOTHING, sizeof *slots, slots);
    if (fault) return fault;
    if (slots->struct_size < (slots->abi_minor == 0 ? (size_t)MINOR_0_BYTES : sizeof *slots))
        return "a vtable shorter than the minor that it claims";
    uint32_t minor = opened->subject->agreed.agreed_minor;
    if (slots->abi_minor > minor) slots->abi_minor = minor;
    if (slots->abi_minor == 0) slots->release_allocation = NULL;
    return NULL;
}

static const char *missing_slot(const NxmemAllocatorVtable *slots) {
    if (!slots->allocate) return "no allocate";
    if (!slots->deallocate) return "no deallocate";
    if (!slots->retain) return "no retain";
    return slots->release ? NULL : "no release";
}

/* Both optional vtables alike. */
static const char *optional_fault(uint64_t flags, uint64_t bit, const void *published, size_t own, void *copy, uint64_t owner) {
    bool claimed = (flags & bit) != 0;
    uint64_t mechanism;
    if (!claimed) return published ? "an optional vtable behind a clear capability bit" : NULL;
    if (!published) return "a capability bit without its vtable";
    if (read_prefix(published, own, own, copy)) return "an optional vtable that cannot be read";
    memcpy(&mechanism, (char *)copy + 8, sizeof mechanism);
    return mechanism == owner ? NULL : "an optional vtable of another mechanism id";
}

const char *opened_fault(struct opened *opened, const char **ret_rule) {
    const NxmemAllocatorVtable *slots = &opened->slots;
    const NxmemDeviceId *device = &opened->subject->factory->device;
    const char *fault;

    *ret_rule = "6.4";
    if ((fault = prefix_fault(opened)) != NULL) return fault;
    *ret_rule = "6.11";
    if ((fault = missing_slot(slots)) != NULL) return fault;
    *ret_rule = "4.6";
    if (slots->mechanism_id == 0) return "mechanism id 0";
    *ret_rule = "9.6";
    if (slots->device.tier != device->tier || slots->device.index != device->index) return "another device than the factory's";
    if (!(slots->capability_flags & NXMEM_CAPABILITY_ALLOCATOR)) return "no ALLOCATOR bit";
    if (slots->capability_flags & ~NXMEM_CAPABILITY_KNOWN_MASK) return "a capability bit outside the table";
    *ret_rule = "10.1";
    if ((fault = optional_fault(slots->capability_flags, NXMEM_CAPABILITY_VIRTUAL_BACKING, slots->virtual_backing,
                                sizeof opened->backing, &opened->backing, slots->mechanism_id)) != NULL ||
        (fault = optional_fault(slots->capability_flags, NXMEM_CAPABILITY_SHARED_MAPPING, slots->shared_mapping,
                                sizeof opened->mapping, &opened->mapping, slots->mechanism_id)) != NULL)
        return fault;
    *ret_rule = "10.4";
    if ((slots->capability_flags & NXMEM_CAPABILITY_DEFERRED_RELEASE) && (!slots->enqueue_release || !slots->drain_releases))
        return "DEFERRED_RELEASE without both its slots";
    return NULL;
}

struct opened must_open_at(struct subject *subject, uint32_t minor, struct host *host) {
    NxmemOpenRequest request = open_request(subject, minor, host);
    struct opened opened;
    const char *rule, *fault;

    NxmemStatus status = try_open(subject, &request, host, &opened);
    NEED(status.code == NXMEM_STATUS_OK, "open_allocator answers %s (9.4)", status_words(&status));
    fault = opened_fault(&opened, &rule);
    NEED(!fault, "the mechanism opens with %s (%s)", fault, rule);
    if (host) host->mechanism_id = opened.slots.mechanism_id;
    return opened;
}

struct opened must_open(struct subject *subject) {
    return must_open_at(subject, subject->agreed.agreed_minor, host_new(subject->agreed.agreed_minor));
}

void must_balance(struct subject *subject) {
    NxmemUnloadReport before = must_report(subject), after;
    struct opened probe = must_open(subject);
    opened_give_back(&probe);
    after = must_report(subject);
    NEED(report_total(&before) == before.live_allocators && report_total(&after) == report_total(&before),
         "the report is wrong already: %s (18.10)", report_words(&after));
}

void opened_give_back(struct opened *opened) {
    if (prefix_fault(opened) || !opened->slots.release) return;
    doing("the allocator's release");
    if (opened->host) opened->host->quiet = true;
    opened->slots.release(opened->slots.ctx);
    if (opened->host) opened->host->quiet = false;
}
