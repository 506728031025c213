#include "negotiate.h"

#include <stdbool.h>
#include <stddef.h>

#include "error.h"
#include "lock.h"
#include "prefix.h"
#include "status.h"

#define REMEDY "build the plugin for nxmem ABI 1.0 to 1.1"

static const NxmemVersionRange our_range = {
    .major_min = NXMEM_ABI_MAJOR,
    .major_max = NXMEM_ABI_MAJOR,
    .minor_min = NXMEM_ABI_OLDEST_MINOR,
    .minor_max = NXMEM_ABI_MINOR,
};

/* Upstream offers every known bit whatever its own ceiling; a plugin drops those above the agreed minor. */
static const uint64_t offered = NXMEM_CAPABILITY_KNOWN_MASK;

static bool within(uint32_t value, uint32_t low, uint32_t high)
{
    return low <= value && value <= high;
}

static int check_version(const NxmemNegotiateResponse *response, const NxmemVersionRange *host,
                         struct nxm_error *ret_error)
{
    const NxmemVersionRange *plugin = &response->plugin_range;
    uint32_t major = response->agreed_major, minor = response->agreed_minor;

    if (!within(major, host->major_min, host->major_max))
        return nxm_error_set(ret_error, NXM_ENEGOTIATE, 0,
                             "plugin agreed to ABI major %u, this host speaks %u to %u; " REMEDY, major,
                             host->major_min, host->major_max);
    if (!within(minor, host->minor_min, host->minor_max))
        return nxm_error_set(ret_error, NXM_ENEGOTIATE, 0,
                             "plugin agreed to ABI minor %u, this host speaks %u to %u; " REMEDY, minor,
                             host->minor_min, host->minor_max);
    if (!within(major, plugin->major_min, plugin->major_max) || !within(minor, plugin->minor_min, plugin->minor_max))
        return nxm_error_set(ret_error, NXM_ENEGOTIATE, 0,
                             "plugin agreed to ABI %u.%u outside its own range %u.%u to %u.%u", major, minor,
                             plugin->major_min, plugin->minor_min, plugin->major_max, plugin->minor_max);
    return NXM_OK;
}

static int check_capabilities(const NxmemNegotiateResponse *response, struct nxm_error *ret_error)
{
    uint64_t flags = response->capability_flags;

    /* The known mask is what we offered, so this is the subset rule too. */
    if ((flags & ~offered) != 0)
        return nxm_error_set(ret_error, NXM_ENEGOTIATE, 0,
                             "plugin claims capability bits 0x%llx that were not offered; " REMEDY,
                             (unsigned long long)(flags & ~offered));
    if ((flags & NXMEM_CAPABILITY_ALLOCATOR) == 0)
        return nxm_error_set(ret_error, NXM_ENEGOTIATE, 0, "plugin does not offer the allocator capability");
    if ((flags & NXMEM_CAPABILITY_STRUCTURED_RELEASE) != 0 && response->agreed_minor < 1)
        return nxm_error_set(ret_error, NXM_ENEGOTIATE, 0,
                             "plugin claims structured release, which minor 1 introduced, at minor 0");
    return NXM_OK;
}

static int check_answer(const NxmemStatus *status, const NxmemNegotiateResponse *response, uint32_t claimed,
                        const NxmemVersionRange *host, struct nxm_error *ret_error)
{
    char words[NXMEM_STATUS_MESSAGE_CAPACITY + 32];
    int result;

    if (status->code != NXMEM_STATUS_OK) {
        nxm_status_text(status, words, sizeof words);
        return nxm_error_set(ret_error, NXM_ENEGOTIATE, status->code, "plugin refused: %s", words);
    }
    if (claimed < sizeof *response)
        return nxm_error_set(ret_error, NXM_ENEGOTIATE, 0, "plugin wrote %u of the %zu bytes of its answer; " REMEDY,
                             claimed, sizeof *response);
    result = check_version(response, host, ret_error);
    return result != NXM_OK ? result : check_capabilities(response, ret_error);
}

int nxm_negotiate(NxmemNegotiateFn negotiate, const NxmemVersionRange *range, struct nxm_agreement *ret_agreement,
                  struct nxm_error *ret_error)
{
    const NxmemVersionRange *host = range == NULL ? &our_range : range;
    NxmemNegotiateRequest request = {
        .struct_size = sizeof request,
        .host_range = *host,
        .host_capability_flags = offered,
    };
    NxmemNegotiateResponse response = { .struct_size = sizeof response };
    NxmemStatus status;
    int result;

    nxm_lock_assert_none();
    status = negotiate(&request, &response);
    result = check_answer(&status, &response, nxm_prefix_trim(&response, sizeof response), host, ret_error);
    if (result != NXM_OK)
        return result;
    *ret_agreement = (struct nxm_agreement){
        .major = response.agreed_major,
        .minor = response.agreed_minor,
        .capabilities = response.capability_flags,
    };
    return NXM_OK;
}
