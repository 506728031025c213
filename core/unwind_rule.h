/* How to get from one frame to its caller: what the unwind tables say of one address, in one word, so that a cache of them
 * can be read without a lock (rule_cache.h). Owns nothing; pure functions.
 *
 * Only what walking needs is in it: where the caller's stack pointer, frame pointer and return address are. Every register
 * else is lost, so a rule that starts from another one cannot be said; it is NXM_RULE_UNKNOWN then.
 */
#ifndef NXM_UNWIND_RULE_H
#define NXM_UNWIND_RULE_H

#include <stdbool.h>
#include <stdint.h>

/* Where something lies: at an offset from one of these. */
enum nxm_from { NXM_FROM_CFA, NXM_FROM_SP, NXM_FROM_FP, NXM_FROM_KEPT /* nowhere: it is still in its register */ };

struct nxm_rule {
    enum nxm_from cfa_from; /* SP or FP */
    bool cfa_loaded;        /* the CFA is what lies there, rather than its address */
    int64_t cfa;            /* offsets in bytes, multiples of 8 */
    enum nxm_from fp_from;
    int64_t fp;
    enum nxm_from ra_from;
    int64_t ra;
    bool last;      /* nobody called this frame */
    bool signal;    /* it was not called but interrupted: the caller's address is exact */
    bool signed_ra; /* the return address carries a signature (64-bit ARM) */
};

/* Bits of a packed rule. The rest are the offsets, in units of 8 bytes: of the CFA in the upper 22 bits, of the frame
 * pointer in 14 from NXM_RULE_FP_AT, of the return address in 14 from NXM_RULE_RA_AT. A frame pointer further away has both fields, and
 * the return address lies behind it. */
#define NXM_RULE_THERE (1u << 0) /* in every one: none is 0 */
#define NXM_RULE_UNKNOWN (1u << 1)
#define NXM_RULE_LAST (1u << 2)
#define NXM_RULE_LOADED (1u << 3)
#define NXM_RULE_SIGNAL (1u << 4)
#define NXM_RULE_SIGNED (1u << 5)
#define NXM_RULE_PAIR (1u << 6)
#define NXM_RULE_FP_KEPT (1u << 7)
#define NXM_RULE_CFA_FP (1u << 8)   /* else from the stack pointer */
#define NXM_RULE_PLAIN (1u << 9)    /* what nearly all are: as below */
#define NXM_RULE_RA_FROM 10         /* two bits, an nxm_from */
#define NXM_RULE_FP_FROM 12         /* two more */
#define NXM_RULE_RA_AT 14
#define NXM_RULE_FP_AT 28
#define NXM_RULE_CFA_AT 42

/* A plain rule: nothing odd, and all that is read lies between the register that the rule starts from and the CFA. Return addresses
 * of x86-64 are right below the CFA then. */

/* NXM_RULE_UNKNOWN when an offset has no room. */
uint64_t nxm_rule_pack(const struct nxm_rule *rule);

static inline int64_t nxm_rule_cfa(uint64_t packed)
{
    return ((int64_t)packed >> NXM_RULE_CFA_AT) * 8;
}

static inline int64_t nxm_rule_fp(uint64_t packed)
{
    uint64_t upper = packed << (64 - NXM_RULE_CFA_AT);

    return packed & NXM_RULE_PAIR ? ((int64_t)upper >> 36) * 8 : ((int64_t)upper >> 50) * 8;
}

static inline int64_t nxm_rule_ra(uint64_t packed)
{
    return packed & NXM_RULE_PAIR ? nxm_rule_fp(packed) + 8 : ((int64_t)(packed << (64 - NXM_RULE_FP_AT)) >> 50) * 8;
}

/* Of a plain one. */
static inline int64_t nxm_rule_plain_fp(uint64_t packed)
{
    return ((int64_t)(packed << (64 - NXM_RULE_CFA_AT)) >> 50) * 8;
}

static inline int64_t nxm_rule_plain_ra(uint64_t packed)
{
#if defined __x86_64__
    (void)packed;
    return -8;
#else
    return ((int64_t)(packed << (64 - NXM_RULE_FP_AT)) >> 50) * 8;
#endif
}

#endif
