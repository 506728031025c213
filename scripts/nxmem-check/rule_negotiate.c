/* Versions and capabilities (sections 5 and 7.2). */
#include <stddef.h>
#include <string.h>

#include "page.h"
#include "rules.h"
#include "text.h"
#include "verdict.h"

#define UNUSED(opened) (void)(opened)

static NxmemStatus ask(struct subject *subject, const NxmemNegotiateRequest *request, NxmemNegotiateResponse *response) {
    NEED(subject->negotiate, "there is no NxmemNegotiate (7.2)");
    doing("NxmemNegotiate");
    return subject->negotiate(request, response);
}

void rule_exports(struct subject *subject, struct opened *opened) {
    UNUSED(opened);
    EXPECT(subject->negotiate, "%s is not exported", NXMEM_SYMBOL_NEGOTIATE);
    EXPECT(subject->create, "%s is not exported", NXMEM_SYMBOL_CREATE_ALLOCATOR_FACTORIES);
    EXPECT(subject->readiness, "%s is not exported", NXMEM_SYMBOL_QUERY_UNLOAD_READINESS);
}

void rule_agrees(struct subject *subject, struct opened *opened) {
    NxmemNegotiateRequest request = negotiate_request(NXMEM_ABI_MINOR);
    NxmemNegotiateResponse response = negotiate_response();
    UNUSED(opened);
    NxmemStatus status = ask(subject, &request, &response);
    EXPECT(status.code == NXMEM_STATUS_OK, "NxmemNegotiate answers %s", status_words(&status));
}

void rule_answer(struct subject *subject, struct opened *opened) {
    NxmemNegotiateRequest request = negotiate_request(NXMEM_ABI_MINOR);
    NxmemNegotiateResponse response;
    UNUSED(opened);
    for (uint32_t oldest = 0; oldest <= 1; oldest++) {
        request.host_range.minor_min = oldest;
        response = negotiate_response();
        NxmemStatus status = ask(subject, &request, &response);
        if (status.code != NXMEM_STATUS_OK) continue;
        const NxmemVersionRange *own = &response.plugin_range;
        EXPECT(response.struct_size >= sizeof response, "the response says that it is %u bytes", response.struct_size);
        EXPECT(response.agreed_major == NXMEM_ABI_MAJOR, "major %u is agreed, the host speaks 1", response.agreed_major);
        EXPECT(response.agreed_minor >= oldest && response.agreed_minor <= NXMEM_ABI_MINOR, "minor %u is agreed, the host speaks %u to 1",
               response.agreed_minor, oldest);
        EXPECT(response.agreed_major >= own->major_min && response.agreed_major <= own->major_max &&
                   response.agreed_minor >= own->minor_min && response.agreed_minor <= own->minor_max,
               "%u.%u is agreed, outside the plugin's own range %u.%u to %u.%u", response.agreed_major, response.agreed_minor,
               own->major_min, own->minor_min, own->major_max, own->minor_max);
        EXPECT((response.capability_flags & ~NXMEM_CAPABILITY_KNOWN_MASK) == 0, "capabilities 0x%llx, of which 0x1f are known",
               (unsigned long long)response.capability_flags);
        EXPECT(response.capability_flags & NXMEM_CAPABILITY_ALLOCATOR, "agreed without ALLOCATOR");
        EXPECT(response.agreed_minor >= 1 || !(response.capability_flags & NXMEM_CAPABILITY_STRUCTURED_RELEASE),
               "STRUCTURED_RELEASE is claimed at minor 0");
    }
}

static void expect_sound_status(const NxmemStatus *status) {
    EXPECT(status->code <= NXMEM_STATUS_BUSY, "NxmemNegotiate answers %s", code_name(status->code));
    const char *fault = status_text_fault(status);
    EXPECT(!fault, "NxmemNegotiate answers %s with %s", code_name(status->code), fault);
}

void rule_negotiation_status(struct subject *subject, struct opened *opened) {
    NxmemNegotiateRequest request = negotiate_request(NXMEM_ABI_MINOR);
    NxmemNegotiateResponse response = negotiate_response();
    UNUSED(opened);
    NxmemStatus status = ask(subject, &request, &response);
    expect_sound_status(&status);
    request.host_range = (NxmemVersionRange){2, 9, 0, 9};
    response = negotiate_response();
    status = ask(subject, &request, &response);
    expect_sound_status(&status);
}

/* What follows judges a plugin that agrees at all. */
static NxmemNegotiateResponse must_agree(struct subject *subject) {
    must_negotiate(subject, NXMEM_ABI_MINOR);
    return subject->agreed;
}

void rule_null_pointers(struct subject *subject, struct opened *opened) {
    NxmemNegotiateRequest request = negotiate_request(NXMEM_ABI_MINOR);
    NxmemNegotiateResponse response = negotiate_response();
    UNUSED(opened);
    NxmemStatus status = ask(subject, NULL, &response);
    EXPECT(status.code == NXMEM_STATUS_INVALID_ARGUMENT, "a NULL request is answered %s", status_words(&status));
    status = ask(subject, &request, NULL);
    EXPECT(status.code == NXMEM_STATUS_INVALID_ARGUMENT, "a NULL response is answered %s", status_words(&status));
}

static bool tells_range(const NxmemNegotiateResponse *response) {
    const NxmemVersionRange *own = &response->plugin_range;
    return own->major_min <= own->major_max && own->minor_min <= own->minor_max && own->major_max > 0;
}

void rule_short_request(struct subject *subject, struct opened *opened) {
    NxmemNegotiateResponse response = negotiate_response();
    uint32_t *stub = page_ending(8), almost = sizeof(NxmemNegotiateRequest) - 1;
    UNUSED(opened);
    must_agree(subject);
    stub[0] = 8;
    doing("NxmemNegotiate with a request of 8 bytes");
    NxmemStatus status = subject->negotiate((const NxmemNegotiateRequest *)(const void *)stub, &response);
    EXPECT(status.code == NXMEM_STATUS_SHORT_STRUCT, "a request of 8 bytes is answered %s", status_words(&status));
    EXPECT(tells_range(&response), "the plugin's range is not told");
    NxmemNegotiateRequest request = negotiate_request(NXMEM_ABI_MINOR);
    request.struct_size = almost;
    response = negotiate_response();
    status = ask(subject, &request, &response);
    EXPECT(status.code == NXMEM_STATUS_SHORT_STRUCT, "a request of 31 bytes is answered %s", status_words(&status));
}

static void expect_mismatch(struct subject *subject, NxmemVersionRange range) {
    NxmemNegotiateRequest request = negotiate_request(NXMEM_ABI_MINOR);
    NxmemNegotiateResponse response = negotiate_response();
    request.host_range = range;
    NxmemStatus status = ask(subject, &request, &response);
    EXPECT(status.code == NXMEM_STATUS_VERSION_MISMATCH, "a host of majors %u to %u, minors %u to %u is answered %s", range.major_min,
           range.major_max, range.minor_min, range.minor_max, status_words(&status));
    EXPECT(tells_range(&response), "the plugin's range is not told to a host of majors %u to %u", range.major_min, range.major_max);
}

void rule_major_range(struct subject *subject, struct opened *opened) {
    uint32_t own = must_agree(subject).plugin_range.major_max;
    UNUSED(opened);
    expect_mismatch(subject, (NxmemVersionRange){own + 1, own + 8, 0, 9});
    expect_mismatch(subject, (NxmemVersionRange){UINT32_MAX, UINT32_MAX, 0, 9});
    expect_mismatch(subject, (NxmemVersionRange){0, own - 1, 0, 9});
}

void rule_minor_range(struct subject *subject, struct opened *opened) {
    NxmemVersionRange own = must_agree(subject).plugin_range;
    NxmemNegotiateRequest request = negotiate_request(0);
    NxmemNegotiateResponse response = negotiate_response();
    UNUSED(opened);
    if (own.minor_max < UINT32_MAX) expect_mismatch(subject, (NxmemVersionRange){1, 1, own.minor_max + 1, UINT32_MAX});
    if (own.minor_min > 0) expect_mismatch(subject, (NxmemVersionRange){1, 1, 0, own.minor_min - 1});
    request.host_range.minor_max = UINT32_MAX;
    NxmemStatus status = ask(subject, &request, &response);
    EXPECT(status.code == NXMEM_STATUS_OK && response.agreed_minor == own.minor_max,
           "a host of minors 0 to 2^32-1 is answered %s, minor %u", status_words(&status), response.agreed_minor);
    if (own.minor_min > 0) return;
    request.host_range.minor_max = 0;
    response = negotiate_response();
    status = ask(subject, &request, &response);
    EXPECT(status.code == NXMEM_STATUS_OK && response.agreed_minor == 0, "a host of minor 0 is answered %s, minor %u",
           status_words(&status), response.agreed_minor);
    EXPECT(!(response.capability_flags & NXMEM_CAPABILITY_STRUCTURED_RELEASE), "STRUCTURED_RELEASE is claimed at minor 0");
}

void rule_malformed_range(struct subject *subject, struct opened *opened) {
    NxmemVersionRange own = must_agree(subject).plugin_range;
    UNUSED(opened);
    expect_mismatch(subject, (NxmemVersionRange){2, 0, 0, 1});
    expect_mismatch(subject, (NxmemVersionRange){1, 0, 0, 1});
    expect_mismatch(subject, (NxmemVersionRange){1, 1, own.minor_max + 1, 0});
}

void rule_offered_subset(struct subject *subject, struct opened *opened) {
    UNUSED(opened);
    must_agree(subject);
    for (uint64_t offered = NXMEM_CAPABILITY_ALLOCATOR; offered <= NXMEM_CAPABILITY_KNOWN_MASK; offered += 2) {
        NxmemNegotiateRequest request = negotiate_request(NXMEM_ABI_MINOR);
        NxmemNegotiateResponse response = negotiate_response();
        request.host_capability_flags = offered;
        NxmemStatus status = ask(subject, &request, &response);
        EXPECT(status.code == NXMEM_STATUS_OK, "a host that offers 0x%llx is answered %s", (unsigned long long)offered, status_words(&status));
        EXPECT((response.capability_flags & ~offered) == 0, "0x%llx is claimed where 0x%llx was offered",
               (unsigned long long)response.capability_flags, (unsigned long long)offered);
    }
    NxmemNegotiateRequest request = negotiate_request(NXMEM_ABI_MINOR);
    NxmemNegotiateResponse response = negotiate_response();
    request.host_capability_flags = UINT64_MAX;
    NxmemStatus status = ask(subject, &request, &response);
    EXPECT(status.code == NXMEM_STATUS_OK && (response.capability_flags & ~NXMEM_CAPABILITY_KNOWN_MASK) == 0,
           "a host that offers every bit is answered %s with 0x%llx", status_words(&status), (unsigned long long)response.capability_flags);
}

void rule_without_allocator(struct subject *subject, struct opened *opened) {
    NxmemNegotiateRequest request = negotiate_request(NXMEM_ABI_MINOR);
    NxmemNegotiateResponse response = negotiate_response();
    UNUSED(opened);
    must_agree(subject);
    request.host_capability_flags = NXMEM_CAPABILITY_KNOWN_MASK & ~NXMEM_CAPABILITY_ALLOCATOR;
    NxmemStatus status = ask(subject, &request, &response);
    EXPECT(status.code == NXMEM_STATUS_UNSUPPORTED_CAPABILITY, "it is answered %s", status_words(&status));
    EXPECT(tells_range(&response), "the plugin's range is not told");
}

void rule_larger_request(struct subject *subject, struct opened *opened) {
    struct {
        NxmemNegotiateRequest known;
        uint64_t more[4];
    } request = {negotiate_request(NXMEM_ABI_MINOR), {0}};
    struct {
        NxmemNegotiateResponse known;
        uint64_t more[4];
    } response = {negotiate_response(), {7, 7, 7, 7}};
    UNUSED(opened);
    must_agree(subject);
    request.known.struct_size = sizeof request;
    response.known.struct_size = sizeof response;
    NxmemStatus status = ask(subject, &request.known, &response.known);
    EXPECT(status.code == NXMEM_STATUS_OK, "a request of %zu bytes is answered %s", sizeof request, status_words(&status));
    for (size_t i = 0; i < 4; i++) EXPECT(response.more[i] == 7, "something is written behind the 40 bytes that minor 1 knows");
}

void rule_response_bounds(struct subject *subject, struct opened *opened) {
    NxmemNegotiateRequest request = negotiate_request(NXMEM_ABI_MINOR);
    struct {
        NxmemNegotiateResponse response;
        uint64_t behind[4];
    } answer;
    UNUSED(opened);
    must_agree(subject);
    for (uint32_t size = 16; size <= sizeof answer.response; size += 8) {
        memset(&answer, 0xA5, sizeof answer);
        answer.response.struct_size = size;
        ask(subject, &request, &answer.response);
        for (size_t at = size; at < sizeof answer; at++)
            EXPECT(((unsigned char *)&answer)[at] == 0xA5, "byte %zu of a response of %u bytes is written", at, size);
        EXPECT(answer.response.struct_size <= size, "a response of %u bytes comes back as one of %u", size, answer.response.struct_size);
    }
}
