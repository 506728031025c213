/* core/negotiate.c: any answer to any range is taken or refused as section 5.3 says, and what is taken is what was
 * answered. */
#include <stddef.h>
#include <string.h>

#include "core/negotiate.h"
#include "support.h"

static struct {
    NxmemNegotiateRequest asked;
    NxmemStatus status;
    uint8_t answer[sizeof(NxmemNegotiateResponse)];
    uint32_t written; /* bytes of it */
    unsigned calls;
} plugin;

static NxmemStatus negotiate(const NxmemNegotiateRequest *request, NxmemNegotiateResponse *response)
{
    plugin.calls++;
    plugin.asked = *request;
    FUZZ_CHECK(response->struct_size == sizeof *response);
    FUZZ_CHECK(response->capability_flags == 0 && response->agreed_major == 0 && response->agreed_minor == 0);
    memcpy(response, plugin.answer, plugin.written);
    return plugin.status;
}

static bool within(uint32_t value, uint32_t low, uint32_t high)
{
    return value >= low && value <= high;
}

/* The answer as the host may see it: zeros where it was not written or not claimed. */
static NxmemNegotiateResponse seen_answer(bool *ret_whole)
{
    NxmemNegotiateResponse seen = { .struct_size = sizeof seen };
    uint32_t claimed;

    memcpy(&seen, plugin.answer, plugin.written);
    claimed = seen.struct_size;
    *ret_whole = claimed == 0 || claimed >= sizeof seen;
    return seen;
}

static bool acceptable(const NxmemVersionRange *host)
{
    bool whole;
    NxmemNegotiateResponse seen = seen_answer(&whole);
    const NxmemVersionRange *own = &seen.plugin_range;

    return plugin.status.code == NXMEM_STATUS_OK && whole &&
           within(seen.agreed_major, host->major_min, host->major_max) &&
           within(seen.agreed_minor, host->minor_min, host->minor_max) &&
           within(seen.agreed_major, own->major_min, own->major_max) &&
           within(seen.agreed_minor, own->minor_min, own->minor_max) && (seen.capability_flags & ~UINT64_C(0x1F)) == 0 &&
           (seen.capability_flags & 1) != 0 && ((seen.capability_flags & 16) == 0 || seen.agreed_minor >= 1);
}

static void check_request(const NxmemVersionRange *host)
{
    FUZZ_CHECK(plugin.calls == 1);
    FUZZ_CHECK(plugin.asked.struct_size == sizeof plugin.asked && plugin.asked.reserved == 0);
    FUZZ_CHECK(memcmp(&plugin.asked.host_range, host, sizeof *host) == 0);
    FUZZ_CHECK(plugin.asked.host_capability_flags == 0x1F);
}

/* Half of the answers are near what is right: those reach the later checks. */
static void make_answer(struct fuzz_input *input)
{
    NxmemNegotiateResponse answer = { 0 };

    if (fuzz_one_in(input, 2)) {
        fuzz_fill(input, plugin.answer, sizeof plugin.answer);
        return;
    }
    answer.struct_size = (uint32_t)fuzz_number(input, sizeof answer);
    answer.agreed_major = (uint32_t)fuzz_number(input, 1);
    answer.agreed_minor = (uint32_t)fuzz_number(input, 1);
    answer.plugin_range.major_min = (uint32_t)fuzz_number(input, 1);
    answer.plugin_range.major_max = (uint32_t)fuzz_number(input, 1);
    answer.plugin_range.minor_min = (uint32_t)fuzz_number(input, 0);
    answer.plugin_range.minor_max = (uint32_t)fuzz_number(input, 1);
    answer.capability_flags = fuzz_number(input, 0x1F);
    memcpy(plugin.answer, &answer, sizeof answer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    struct fuzz_input input = { data, length };
    NxmemVersionRange host = { 1, 1, 0, 1 };
    struct nxm_agreement agreement = { 77, 77, 77 };
    struct nxm_error error = { .code = NXM_OK };
    bool own_range = fuzz_one_in(&input, 4), whole;
    int result;

    memset(&plugin, 0, sizeof plugin);
    if (own_range)
        fuzz_fill(&input, &host, sizeof host);
    if (fuzz_one_in(&input, 8)) {
        plugin.status.code = (uint32_t)fuzz_number(&input, 1);
        plugin.status.message_len = (uint32_t)fuzz_number(&input, 255);
        fuzz_fill(&input, plugin.status.message, sizeof plugin.status.message);
    }
    make_answer(&input);
    plugin.written = fuzz_one_in(&input, 8) ? fuzz_u8(&input) % (sizeof plugin.answer + 1) : sizeof plugin.answer;
    result = nxm_negotiate(negotiate, own_range ? &host : NULL, &agreement, &error);
    check_request(&host);
    FUZZ_CHECK(result == (acceptable(&host) ? NXM_OK : NXM_ENEGOTIATE));
    if (result == NXM_OK) {
        NxmemNegotiateResponse seen = seen_answer(&whole);

        FUZZ_CHECK(agreement.major == seen.agreed_major && agreement.minor == seen.agreed_minor &&
                   agreement.capabilities == seen.capability_flags);
    } else {
        FUZZ_CHECK(agreement.major == 77 && agreement.minor == 77 && agreement.capabilities == 77);
        FUZZ_CHECK(error.code == NXM_ENEGOTIATE && error.status == plugin.status.code);
        FUZZ_CHECK(memchr(error.text, '\0', sizeof error.text) != NULL && error.text[0] != '\0');
    }
    return 0;
}
