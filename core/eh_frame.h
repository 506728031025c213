/* The unwind tables of an image, .eh_frame_hdr and .eh_frame (Linux Standard Base, "Exception Frames"): which entry an address
 * belongs to. Owns nothing; any thread, no lock, no malloc.
 *
 * The bytes are taken for no more than bytes: nothing outside [start, end) is read, whatever they say.
 */
#ifndef NXM_EH_FRAME_H
#define NXM_EH_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "bytes.h"

/* The readable segment that both sections lie in. `header` NULL: the image has no tables. */
struct nxm_eh_frame {
    const uint8_t *start, *end;
    const uint8_t *header; /* .eh_frame_hdr */
};

/* A function's entry (FDE) with what its common part (CIE) says. */
struct nxm_fde {
    uint64_t start, length;           /* the code */
    struct nxm_bytes common, program; /* instructions: for every entry of the CIE, and for this one */
    uint64_t code_unit;
    int64_t data_unit;
    uint64_t ra_register;
    bool signal; /* a signal's return trampoline */
};

enum nxm_fde_result {
    NXM_FDE_FOUND,
    NXM_FDE_NONE,   /* the tables have nothing about it */
    NXM_FDE_STRANGE /* they are written as we cannot read, or damaged */
};

enum nxm_fde_result nxm_fde_find(const struct nxm_eh_frame *tables, uint64_t address, struct nxm_fde *ret_fde);

#endif
