/* DWARF expressions as unwind tables use them, worked out without the machine's state: a result is a number, or an offset from a
 * register or from what lies at such an offset. That is all that a rule can say (unwind_rule.h), and all that code in use
 * needs: signal trampolines, entries of the procedure linkage table, frames that align themselves. Owns nothing. */
#ifndef NXM_CFI_EXPRESSION_H
#define NXM_CFI_EXPRESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "bytes.h"

enum nxm_term_from { NXM_TERM_NUMBER, NXM_TERM_SP, NXM_TERM_FP, NXM_TERM_CFA };

struct nxm_term {
    enum nxm_term_from from;
    bool loaded; /* what lies there */
    int64_t offset;
};

/* `pc`: what the register of the instruction pointer stands for. `start`: what lies on the stack at first; NULL: nothing. False: it
 * cannot be said so, or is damaged. */
bool nxm_cfi_expression(struct nxm_bytes bytes, uint64_t pc, const struct nxm_term *start, struct nxm_term *ret_term);

#endif
