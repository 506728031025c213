#include "subject.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "text.h"
#include "verdict.h"

static void find_export(void *library, const char *name, void *ret_function) {
    void *found = dlsym(library, name);
    memcpy(ret_function, &found, sizeof found);
}

bool subject_load(struct subject *subject, const char *path, char *ret_why, size_t size) {
    doing("dlopen");
    subject->library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    if (!subject->library) {
        snprintf(ret_why, size, "%s", dlerror());
        return false;
    }
    find_export(subject->library, NXMEM_SYMBOL_NEGOTIATE, &subject->negotiate);
    find_export(subject->library, NXMEM_SYMBOL_CREATE_ALLOCATOR_FACTORIES, &subject->create);
    find_export(subject->library, NXMEM_SYMBOL_QUERY_UNLOAD_READINESS, &subject->readiness);
    find_export(subject->library, NXMEM_SYMBOL_QUERY_CUDA, &subject->query_cuda);
    return true;
}

NxmemNegotiateRequest negotiate_request(uint32_t minor_max) {
    return (NxmemNegotiateRequest){.struct_size = sizeof(NxmemNegotiateRequest),
                                   .host_range = {NXMEM_ABI_MAJOR, NXMEM_ABI_MAJOR, NXMEM_ABI_OLDEST_MINOR, minor_max},
                                   .host_capability_flags = NXMEM_CAPABILITY_KNOWN_MASK};
}

NxmemNegotiateResponse negotiate_response(void) {
    return (NxmemNegotiateResponse){.struct_size = sizeof(NxmemNegotiateResponse)};
}

void must_negotiate(struct subject *subject, uint32_t minor_max) {
    NxmemNegotiateRequest request = negotiate_request(minor_max);
    subject->agreed = negotiate_response();
    NEED(subject->negotiate, "there is no NxmemNegotiate (7.2)");
    doing("NxmemNegotiate");
    NxmemStatus status = subject->negotiate(&request, &subject->agreed);
    NEED(status.code == NXMEM_STATUS_OK, "negotiation answers %s (5.2)", status_words(&status));
}

/* --- factories --- */

const char *factory_fault(const NxmemAllocatorFactoryVtable *factory) {
    uint32_t size;
    if (!factory) return "is NULL";
    if ((uintptr_t)factory % _Alignof(NxmemAllocatorFactoryVtable) != 0) return "is misaligned";
    memcpy(&size, factory, sizeof size);
    if (size < sizeof *factory) return "is shorter than 56 bytes";
    if (!factory->open_allocator) return "has no open_allocator";
    if (!factory->release) return "has no release";
    return NULL;
}

void must_enumerate(struct subject *subject) {
    NEED(subject->create, "there is no NxmemCreateAllocatorFactories (7.2)");
    doing("NxmemCreateAllocatorFactories");
    NxmemStatus status = subject->create(subject->factories, MAX_FACTORIES, &subject->factory_count);
    NEED(status.code == NXMEM_STATUS_OK, "NxmemCreateAllocatorFactories answers %s (8.1)", status_words(&status));
    NEED(subject->factory_count <= MAX_FACTORIES, "more factories than there is room for (8.1)");
}

/* --- the unload report --- */

NxmemStatus try_report(struct subject *subject, NxmemUnloadReport *ret_report) {
    *ret_report = (NxmemUnloadReport){.struct_size = sizeof *ret_report};
    NEED(subject->readiness, "there is no NxmemQueryUnloadReadiness (7.2)");
    doing("NxmemQueryUnloadReadiness");
    return subject->readiness(ret_report);
}

NxmemUnloadReport must_report(struct subject *subject) {
    NxmemUnloadReport report;
    NxmemStatus status = try_report(subject, &report);
    NEED(status.code == NXMEM_STATUS_OK, "the unload report answers %s (18.5)", status_words(&status));
    return report;
}

uint64_t report_total(const NxmemUnloadReport *report) {
    uint64_t total = 0;
    const uint64_t axes[] = {report->live_allocators, report->live_allocations, report->live_views, report->live_capabilities,
                             report->queued_releases};
    for (size_t i = 0; i < sizeof axes / sizeof *axes; i++) total = axes[i] > UINT64_MAX - total ? UINT64_MAX : total + axes[i];
    return total;
}

bool report_is_zero_soon(struct subject *subject, NxmemUnloadReport *ret_last) {
    for (unsigned waited = 0;; waited += 5) {
        *ret_last = must_report(subject);
        if (report_total(ret_last) == 0) return true;
        if (waited >= subject->limit_ms / 8) return false;
        sleep_ms(5);
    }
}

const char *report_words(const NxmemUnloadReport *report) {
    static _Thread_local char words[192]; /* five numbers of up to 20 digits fit */
    const struct { uint64_t count; const char *one, *many; } axes[] = {
        {report->live_allocators, "allocator", "allocators"}, {report->live_allocations, "allocation", "allocations"},
        {report->live_views, "view", "views"}, {report->live_capabilities, "capability", "capabilities"},
        {report->queued_releases, "queued release", "queued releases"}};
    size_t length = 0;
    for (size_t i = 0; i < sizeof axes / sizeof *axes; i++)
        length += (size_t)snprintf(words + length, sizeof words - length, "%s%llu %s", i ? ", " : "", (unsigned long long)axes[i].count,
                                   axes[i].count == 1 ? axes[i].one : axes[i].many);
    return words;
}

void sleep_ms(unsigned milliseconds) {
    struct timespec time = {milliseconds / 1000, (long)(milliseconds % 1000) * 1000000};
    nanosleep(&time, NULL);
}
