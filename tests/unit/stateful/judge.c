#include "judge.h"

#include <string.h>

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static struct nxm_release kept_back(uint64_t unmapped, uint64_t retained, const struct nxm_block *block)
{
    uint64_t most = block->bytes > block->owned ? block->bytes : block->owned;

    return (struct nxm_release){
        .outcome = NXM_RELEASE_QUARANTINED,
        .unmapped = least(unmapped, block->bytes),
        .retained = least(retained, most),
    };
}

struct nxm_release judge_outcome(NxmemReleaseOutcome outcome, const struct nxm_block *block)
{
    uint32_t claimed = outcome.struct_size;
    struct nxm_release release;

    if (claimed == 0 || claimed > sizeof outcome)
        claimed = sizeof outcome;
    memset((char *)&outcome + claimed, 0, sizeof outcome - claimed);
    if (claimed < 8 || outcome.state > NXMEM_RELEASE_FAILED)
        release = kept_back(0, block->bytes, block);
    else if (outcome.state == NXMEM_RELEASE_FAILED)
        release = (struct nxm_release){ .outcome = NXM_RELEASE_FAILED };
    else if (outcome.state == NXMEM_RELEASE_COMPLETE && outcome.residual_owned_bytes == 0)
        return judge_deallocate(outcome.unmapped_bytes, block);
    else
        release = kept_back(outcome.unmapped_bytes, claimed < 32 ? block->bytes : outcome.residual_owned_bytes, block);
    release.status = outcome.failure.code;
    return release;
}

struct nxm_release judge_deallocate(uint64_t unmapped, const struct nxm_block *block)
{
    return (struct nxm_release){ .outcome = NXM_RELEASE_COMPLETE, .unmapped = least(unmapped, block->bytes) };
}

bool judge_leaves_doubt(uint32_t code)
{
    return code == NXMEM_STATUS_INTERNAL_ERROR || code == NXMEM_STATUS_RELEASE_QUARANTINED || code > NXMEM_STATUS_BUSY;
}

struct nxm_release judge_status(uint32_t code, const struct nxm_block *block)
{
    struct nxm_release release = { .outcome = NXM_RELEASE_FAILED };

    if (judge_leaves_doubt(code))
        release = kept_back(0, block->bytes, block);
    release.status = code;
    return release;
}

struct nxm_release judge_abandoned(const struct nxm_release *failed, const struct nxm_block *block)
{
    struct nxm_release release = kept_back(0, block->bytes, block);

    release.status = failed->status;
    return release;
}

bool judge_same(const struct nxm_release *a, const struct nxm_release *b)
{
    return a->outcome == b->outcome && a->unmapped == b->unmapped && a->retained == b->retained && a->status == b->status;
}

uint64_t judge_cost(uint64_t stated, uint64_t bytes)
{
    return stated >= bytes && stated - bytes > UINT64_C(1099511627776) ? bytes + UINT64_C(1099511627776) : stated;
}
