/* What a function of this library says when it fails. Owns nothing; any thread; no locks.
 *
 * Inside, a result is 0 or one negative value of enum nxm_result. NxmemStatus and CUresult keep their
 * own types and are translated in one place each (core/status.h, interpose/cuda_status.h).
 */
#ifndef NXM_RESULT_H
#define NXM_RESULT_H

#include <stdint.h>

enum nxm_result {
    NXM_OK = 0,
    NXM_ENOMEM = -1,       /* our own bookkeeping found no memory, or the plugin said OUT_OF_MEMORY */
    NXM_EINVAL = -2,       /* an argument of the caller is wrong; nothing was called */
    NXM_ENOENT = -3,       /* address or id unknown */
    NXM_EEXIST = -4,       /* address already live, or inside a quarantined span */
    NXM_EBUSY = -5,        /* something is still live, or the block is in another state */
    NXM_EOPEN = -6,        /* the library cannot be opened */
    NXM_ESYMBOL = -7,      /* a mandatory export is missing */
    NXM_ENEGOTIATE = -8,   /* negotiation refused, by either side */
    NXM_ECALL = -9,        /* the plugin returned a failing status: see nxm_error.status */
    NXM_ECONTRACT = -10,   /* the plugin broke the ABI */
    NXM_ENOMECHANISM = -11,/* no mechanism of that name or device */
    NXM_EUNSUPPORTED = -12,/* the mechanism has no such capability; nothing was called */
    NXM_ERETIRED = -13,    /* the provider context accepts no more work; nothing was called */
};

#define NXM_ERROR_TEXT 384

/* Filled by the first to notice; callers pass it on. Caller's storage. */
struct nxm_error {
    enum nxm_result code;
    uint32_t status;            /* NxmemStatus.code of the plugin's answer, or 0 */
    const char *what;           /* the operation that failed or the export that is missing, a literal; NULL: neither */
    char text[NXM_ERROR_TEXT];  /* one line: the cause and, where known, the remedy */
};

#endif
