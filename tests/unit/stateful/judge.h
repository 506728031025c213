/* What a plugin's answer to a release means (nxmem spec 12.5 to 12.8, with the hardening), written down a second time and
 * otherwise than core/terminal.c has it. Owns nothing; any thread.
 */
#ifndef JUDGE_H
#define JUDGE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/allocator.h"
#include "core/blocks.h"
#include "nxmem_memory_abi.h"

struct nxm_release judge_outcome(NxmemReleaseOutcome outcome, const struct nxm_block *block);
struct nxm_release judge_status(uint32_t code, const struct nxm_block *block);
struct nxm_release judge_deallocate(uint64_t unmapped, const struct nxm_block *block); /* status OK */

/* The plugin kept it all: nobody is left to whom the block could be live again. */
struct nxm_release judge_abandoned(const struct nxm_release *failed, const struct nxm_block *block);

/* What is counted of a cost that the plugin stated: not more than 1 TiB beside the bytes themselves. */
uint64_t judge_cost(uint64_t stated, uint64_t bytes);

bool judge_leaves_doubt(uint32_t code);
bool judge_same(const struct nxm_release *a, const struct nxm_release *b); /* but for the ticket */

#endif
