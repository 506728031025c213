/* What a plugin publishes, and its report while it is idle (sections 8 and 18.10). */
#include <stddef.h>
#include <string.h>

#include "rules.h"
#include "text.h"
#include "verdict.h"

enum { ROOM = MAX_FACTORIES + 8 };

/* A place that no plugin hands out. */
static const NxmemAllocatorFactoryVtable untouched;

static NxmemStatus list(struct subject *subject, const NxmemAllocatorFactoryVtable **slots, uint64_t max, uint64_t *ret_count) {
    for (unsigned i = 0; i < ROOM; i++) slots[i] = &untouched;
    NEED(subject->create, "there is no NxmemCreateAllocatorFactories (7.2)");
    doing("NxmemCreateAllocatorFactories");
    *ret_count = 0;
    return subject->create(slots, max, ret_count);
}

void rule_enumerates(struct subject *subject, struct opened *opened) {
    const NxmemAllocatorFactoryVtable *slots[ROOM];
    uint64_t count;
    (void)opened;
    must_negotiate(subject, NXMEM_ABI_MINOR);
    NxmemStatus status = list(subject, slots, MAX_FACTORIES, &count);
    EXPECT(status.code == NXMEM_STATUS_OK, "it is answered %s", status_words(&status));
    EXPECT(count <= MAX_FACTORIES, "%llu factories where there is room for 64", (unsigned long long)count);
    for (uint64_t i = 0; i < count; i++)
        EXPECT(slots[i] && slots[i] != &untouched, "%llu factories, and slot %llu is %s", (unsigned long long)count, (unsigned long long)i,
               slots[i] ? "not written" : "NULL");
}

void rule_nothing_past_count(struct subject *subject, struct opened *opened) {
    const NxmemAllocatorFactoryVtable *slots[ROOM];
    uint64_t count;
    (void)opened;
    must_negotiate(subject, NXMEM_ABI_MINOR);
    NxmemStatus status = list(subject, slots, MAX_FACTORIES, &count);
    NEED(status.code == NXMEM_STATUS_OK && count <= MAX_FACTORIES, "factories are not listed (8.1)");
    for (uint64_t i = count; i < ROOM; i++)
        EXPECT(slots[i] == &untouched || (slots[i] == NULL && i < MAX_FACTORIES), "slot %llu is written, and %llu factories are counted",
               (unsigned long long)i, (unsigned long long)count);
}

static void give_back(const NxmemAllocatorFactoryVtable **slots, uint64_t count) {
    doing("a factory's release");
    for (uint64_t i = 0; i < count; i++)
        if (!factory_fault(slots[i])) slots[i]->release(slots[i]->ctx);
}

void rule_little_room(struct subject *subject, struct opened *opened) {
    const NxmemAllocatorFactoryVtable *slots[ROOM];
    uint64_t all, count;
    (void)opened;
    must_negotiate(subject, NXMEM_ABI_MINOR);
    NxmemStatus status = list(subject, slots, MAX_FACTORIES, &all);
    EXPECT(status.code == NXMEM_STATUS_OK || all == 0, "answers %s and counts %llu", status_words(&status), (unsigned long long)all);
    NEED(status.code == NXMEM_STATUS_OK && all <= MAX_FACTORIES, "factories are not listed (8.1)");
    give_back(slots, all);
    for (uint64_t room = 0; room < all; room = room * 2 + 1) {
        status = list(subject, slots, room, &count);
        for (uint64_t i = room; i < ROOM; i++)
            EXPECT(slots[i] == &untouched, "slot %llu is written, with room for %llu", (unsigned long long)i, (unsigned long long)room);
        EXPECT(status.code == NXMEM_STATUS_OK || count == 0, "answers %s and counts %llu", status_words(&status), (unsigned long long)count);
        EXPECT(count <= room, "%llu factories where there is room for %llu", (unsigned long long)count, (unsigned long long)room);
        if (status.code == NXMEM_STATUS_OK) give_back(slots, count);
    }
}

void rule_factory_vtables(struct subject *subject, struct opened *opened) {
    (void)opened;
    must_negotiate(subject, NXMEM_ABI_MINOR);
    must_enumerate(subject);
    for (uint64_t i = 0; i < subject->factory_count; i++) {
        NEED(subject->factories[i], "slot %llu is NULL, below the count (8.1)", (unsigned long long)i);
        const char *fault = factory_fault(subject->factories[i]);
        EXPECT(!fault, "factory %llu %s", (unsigned long long)i, fault);
    }
}

/* For each factory that can be read. */
static void each(struct subject *subject, void (*judge)(uint64_t, const NxmemAllocatorFactoryVtable *)) {
    must_negotiate(subject, NXMEM_ABI_MINOR);
    must_enumerate(subject);
    for (uint64_t i = 0; i < subject->factory_count; i++)
        if (!factory_fault(subject->factories[i])) judge(i, subject->factories[i]);
}

static void judge_tier(uint64_t i, const NxmemAllocatorFactoryVtable *factory) {
    EXPECT(factory->device.tier <= NXMEM_TIER_DISK, "factory %llu is of tier %u", (unsigned long long)i, factory->device.tier);
}

void rule_factory_tiers(struct subject *subject, struct opened *opened) {
    (void)opened;
    each(subject, judge_tier);
}

static void judge_name(uint64_t i, const NxmemAllocatorFactoryVtable *factory) {
    EXPECT(factory->name, "factory %llu has no name", (unsigned long long)i);
    doing("reading a factory's name");
    size_t length = strnlen((const char *)factory->name, NAME_LIMIT);
    EXPECT(length < NAME_LIMIT, "the name of factory %llu does not end within %d bytes", (unsigned long long)i, NAME_LIMIT);
    EXPECT(is_utf8(factory->name, length), "the name of factory %llu is not UTF-8", (unsigned long long)i);
}

void rule_factory_names(struct subject *subject, struct opened *opened) {
    (void)opened;
    each(subject, judge_name);
}

static void judge_bits(uint64_t i, const NxmemAllocatorFactoryVtable *factory) {
    EXPECT((factory->capability_flags & ~NXMEM_CAPABILITY_KNOWN_MASK) == 0, "factory %llu claims 0x%llx", (unsigned long long)i,
           (unsigned long long)factory->capability_flags);
}

void rule_factory_bits(struct subject *subject, struct opened *opened) {
    (void)opened;
    each(subject, judge_bits);
}

void rule_factory_once(struct subject *subject, struct opened *opened) {
    (void)opened;
    must_negotiate(subject, NXMEM_ABI_MINOR);
    must_enumerate(subject);
    for (uint64_t i = 0; i < subject->factory_count; i++)
        for (uint64_t j = 0; j < i; j++)
            EXPECT(!subject->factories[i] || subject->factories[i] != subject->factories[j],
                   "slots %llu and %llu hold the same pointer: each is released once", (unsigned long long)j, (unsigned long long)i);
}

void rule_factories_again(struct subject *subject, struct opened *opened) {
    char names[MAX_FACTORIES][64];
    (void)opened;
    must_negotiate(subject, NXMEM_ABI_MINOR);
    must_enumerate(subject);
    uint64_t before = subject->factory_count;
    for (uint64_t i = 0; i < before; i++) {
        NEED(!factory_fault(subject->factories[i]), "factory %llu cannot be read (8.4)", (unsigned long long)i);
        NEED(subject->factories[i]->name, "factory %llu has no name (8.6)", (unsigned long long)i);
        strncpy(names[i], (const char *)subject->factories[i]->name, sizeof names[i] - 1);
        names[i][sizeof names[i] - 1] = '\0';
    }
    give_back(subject->factories, before);
    must_negotiate(subject, NXMEM_ABI_MINOR);
    NxmemStatus status = subject->create(subject->factories, MAX_FACTORIES, &subject->factory_count);
    EXPECT(status.code == NXMEM_STATUS_OK, "the second time it is answered %s", status_words(&status));
    EXPECT(subject->factory_count == before, "%llu factories, and then %llu", (unsigned long long)before,
           (unsigned long long)subject->factory_count);
    for (uint64_t i = 0; i < before; i++) {
        const char *fault = factory_fault(subject->factories[i]);
        EXPECT(!fault, "the second time factory %llu %s", (unsigned long long)i, fault);
        EXPECT(strncmp(names[i], (const char *)subject->factories[i]->name, sizeof names[i] - 1) == 0,
               "the second time factory %llu has another name", (unsigned long long)i);
    }
}

void rule_idle_report(struct subject *subject, struct opened *opened) {
    NxmemUnloadReport report;
    (void)opened;
    must_negotiate(subject, NXMEM_ABI_MINOR);
    must_enumerate(subject);
    NxmemStatus status = try_report(subject, &report);
    EXPECT(status.code == NXMEM_STATUS_OK, "the report answers %s", status_words(&status));
    EXPECT(report.struct_size >= sizeof report, "the report says that it is %u bytes", report.struct_size);
    EXPECT(report_total(&report) == 0, "nothing was opened, and it reports %s", report_words(&report));
}

void rule_report_bounds(struct subject *subject, struct opened *opened) {
    struct {
        NxmemUnloadReport report;
        uint64_t behind[4];
    } answer;
    (void)opened;
    must_negotiate(subject, NXMEM_ABI_MINOR);
    must_enumerate(subject);
    must_report(subject);
    for (uint32_t size = 16; size <= sizeof answer; size += 8) {
        memset(&answer, 0xA5, sizeof answer);
        answer.report.struct_size = size;
        doing("NxmemQueryUnloadReadiness");
        subject->readiness(&answer.report);
        size_t end = size < sizeof answer.report ? size : sizeof answer.report;
        for (size_t at = end; at < sizeof answer; at++)
            EXPECT(((unsigned char *)&answer)[at] == 0xA5, "byte %zu of a report of %u bytes is written", at, size);
    }
}
