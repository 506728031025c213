#include "plugins/common/negotiate.h"

#include <string.h>

#include "plugins/common/status.h"

static const NxmemVersionRange spoken = {NXMEM_ABI_MAJOR, NXMEM_ABI_MAJOR, NXMEM_ABI_OLDEST_MINOR, NXMEM_ABI_MINOR};

uint64_t nxp_capabilities_at(uint64_t capabilities, uint32_t minor)
{
    capabilities &= NXMEM_CAPABILITY_KNOWN_MASK;
    return minor >= 1 ? capabilities : capabilities & ~NXMEM_CAPABILITY_STRUCTURED_RELEASE;
}

static NxmemStatus version_mismatch(const NxmemVersionRange *host)
{
    struct nxp_message message = {.length = 0};

    nxp_message_add(&message, "this plugin speaks nxmem 1.0 to 1.1, the host majors ");
    nxp_message_add_number(&message, host->major_min);
    nxp_message_add(&message, " to ");
    nxp_message_add_number(&message, host->major_max);
    nxp_message_add(&message, ", minors ");
    nxp_message_add_number(&message, host->minor_min);
    nxp_message_add(&message, " to ");
    nxp_message_add_number(&message, host->minor_max);
    return nxp_status_from(NXMEM_STATUS_VERSION_MISMATCH, &message);
}

/* Steps 4 to 8 of section 5.2, into `answer`. */
static NxmemStatus agree(uint64_t capabilities, const NxmemNegotiateRequest *request, NxmemNegotiateResponse *answer)
{
    const NxmemVersionRange *host = &request->host_range;
    uint32_t minor = spoken.minor_max < host->minor_max ? spoken.minor_max : host->minor_max;

    if (spoken.major_max < host->major_min || spoken.major_max > host->major_max)
        return version_mismatch(host);
    if (minor < spoken.minor_min || minor < host->minor_min)
        return version_mismatch(host);
    capabilities = nxp_capabilities_at(capabilities & request->host_capability_flags, minor);
    if ((capabilities & NXMEM_CAPABILITY_ALLOCATOR) == 0)
        return nxp_status(NXMEM_STATUS_UNSUPPORTED_CAPABILITY, "the host does not offer the allocator capability");
    answer->agreed_major = spoken.major_max;
    answer->agreed_minor = minor;
    answer->capability_flags = capabilities;
    return nxp_ok();
}

NxmemStatus nxp_negotiate(uint64_t capabilities, const NxmemNegotiateRequest *request,
                          NxmemNegotiateResponse *response)
{
    NxmemNegotiateResponse answer;
    NxmemStatus status;

    if (request == NULL || response == NULL)
        return nxp_status(NXMEM_STATUS_INVALID_ARGUMENT, "negotiation needs a request and a response");
    memset(&answer, 0, sizeof answer);
    answer.plugin_range = spoken; /* told even when the two cannot agree */
    if (request->struct_size < sizeof *request)
        status = nxp_status(NXMEM_STATUS_SHORT_STRUCT, "the negotiation request is shorter than at minor 0");
    else if (response->struct_size < sizeof *response)
        status = nxp_status(NXMEM_STATUS_SHORT_STRUCT, "the negotiation response has no room for the answer");
    else
        status = agree(capabilities, request, &answer);
    nxp_answer(response, &answer, sizeof answer);
    return status;
}
