/* Which blocks of mechanisms the program asked to be synchronous for memory operations (CU_POINTER_ATTRIBUTE_SYNC_MEMOPS).
 * Owns a list of such blocks; any thread; NXM_RANK_OBJECTS inside.
 */
#ifndef NXM_MEMOPS_H
#define NXM_MEMOPS_H

#include <stdbool.h>

#include "core/blocks.h"

bool nxm_memops_are_synchronous(const struct nxm_block *block);
bool nxm_memops_set(const struct nxm_block *block, bool synchronous); /* false: no memory, nothing changed */

#endif
