/* Call frame information (DWARF 5, section 6.4): what the instructions of an entry say of one address. Owns nothing; any thread,
 * no lock, no malloc; reads the entry's bytes and nothing else. */
#ifndef NXM_CFI_H
#define NXM_CFI_H

#include <stdint.h>

#include "eh_frame.h"

/* DWARF's numbers of the registers that matter. */
#if defined __x86_64__
#define NXM_CFI_FP 6
#define NXM_CFI_SP 7
#define NXM_CFI_PC 16
#define NXM_CFI_RA 16 /* stands for where the return address lies */
#elif defined __aarch64__
#define NXM_CFI_FP 29
#define NXM_CFI_RA 30
#define NXM_CFI_SP 31
#define NXM_CFI_PC 32
#else
#error "no numbers of registers for this machine"
#endif

/* The rule at `address` (which lies in the entry's code), packed: unwind_rule.h. NXM_RULE_UNKNOWN: it cannot be said, or the
 * instructions are damaged. */
uint64_t nxm_cfi_rule(const struct nxm_fde *fde, uint64_t address);

#endif
