#include "unwind_rule.h"

static bool has_room(int64_t offset, unsigned bits)
{
    int64_t units = offset / 8, most = (int64_t)1 << (bits - 1);

    return offset % 8 == 0 && units >= -most && units < most;
}

static uint64_t field(int64_t offset, unsigned bits, unsigned at)
{
    return ((uint64_t)(offset / 8) & ((UINT64_C(1) << bits) - 1)) << at;
}

static bool is_between(const struct nxm_rule *rule, enum nxm_from from, int64_t offset)
{
    return from == NXM_FROM_CFA && offset >= -rule->cfa && offset <= -8;
}

static bool is_plain(const struct nxm_rule *rule)
{
    if (rule->cfa_loaded || rule->signal || rule->signed_ra || !is_between(rule, rule->ra_from, rule->ra))
        return false;
#if defined __x86_64__
    if (rule->ra != -8)
        return false;
#endif
    return rule->fp_from == NXM_FROM_KEPT || is_between(rule, rule->fp_from, rule->fp);
}

uint64_t nxm_rule_pack(const struct nxm_rule *rule)
{
    uint64_t packed = NXM_RULE_THERE;
    bool pair = rule->fp_from == rule->ra_from && rule->ra_from != NXM_FROM_KEPT && rule->ra == rule->fp + 8;

    if (rule->last)
        return NXM_RULE_THERE | NXM_RULE_LAST;
    if (!has_room(rule->cfa, 22) || rule->cfa_from == NXM_FROM_CFA || rule->cfa_from == NXM_FROM_KEPT)
        return NXM_RULE_THERE | NXM_RULE_UNKNOWN;
    packed |= rule->cfa_loaded ? NXM_RULE_LOADED : 0;
    packed |= rule->signal ? NXM_RULE_SIGNAL : 0;
    packed |= rule->signed_ra ? NXM_RULE_SIGNED : 0;
    packed |= rule->cfa_from == NXM_FROM_FP ? NXM_RULE_CFA_FP : 0;
    packed |= (uint64_t)rule->ra_from << NXM_RULE_RA_FROM | field(rule->cfa, 22, NXM_RULE_CFA_AT);
    packed |= rule->fp_from == NXM_FROM_KEPT ? NXM_RULE_FP_KEPT : (uint64_t)rule->fp_from << NXM_RULE_FP_FROM;
    if (has_room(rule->fp, 14) && has_room(rule->ra, 14))
        return packed | field(rule->fp, 14, NXM_RULE_FP_AT) | field(rule->ra, 14, NXM_RULE_RA_AT) |
               (is_plain(rule) ? NXM_RULE_PLAIN : 0);
    if (pair && has_room(rule->fp, 28))
        return packed | NXM_RULE_PAIR | field(rule->fp, 28, NXM_RULE_RA_AT);
    return NXM_RULE_THERE | NXM_RULE_UNKNOWN;
}
