/* Blocks that were freed lately, so that a second free can be told where the block came from. Owns a fixed number of places,
 * chosen by address; a later block takes the place of an earlier one. Any thread; no locks. An entry that another thread is
 * writing at the moment is not seen.
 */
#ifndef NXM_GRAVES_H
#define NXM_GRAVES_H

#include <stdbool.h>
#include <stdint.h>

#include "blocks.h"

/* `stack`: of the free, an nxm_stack id; 0 none. */
void nxm_graves_bury(const struct nxm_block *block, uint32_t stack);

/* The latest block that started there: its address, bytes, id, class, API and stack; false when nobody knows. */
bool nxm_graves_find(uint64_t address, struct nxm_block *ret_block, uint32_t *ret_stack);

#endif
