/* The numbers by which blocks are told apart: unique in the process, never 0, never given twice. Any
 * thread; no locks. A thread takes a row of them at once, so that threads seldom meet over the next one. The row's number is that of
 * the thread's line of counters (spread.h), modulo NXM_SPREAD_LINES: what is chosen by it is the thread's own where its line is.
 */
#ifndef NXM_IDS_H
#define NXM_IDS_H

#include <stdint.h>

#include "own.h"

#define NXM_IDS_ROW 256u /* rows begin at multiples of it: id / NXM_IDS_ROW names the row */

uint64_t nxm_ids_begin_row(void);
uint64_t nxm_ids_bound(void); /* above every id that any thread has been given; below those of rows that begin from now on */

static inline uint64_t nxm_block_next_id(void)
{
    uint64_t id = nxm_own.next_id; /* a multiple of the row: it is used up */

    if (__builtin_expect(id % NXM_IDS_ROW == 0, 0))
        id = nxm_ids_begin_row();
    nxm_own.next_id = id + 1;
    return id;
}

#endif
