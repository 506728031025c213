/* The numbers by which blocks are told apart: unique in the process, never 0, never given twice. Owns a thread-local number; any
 * thread; no locks. A thread takes a row of them at once, so that threads seldom meet over the next one.
 */
#ifndef NXM_IDS_H
#define NXM_IDS_H

#include <stdint.h>

#define NXM_IDS_ROW 64u /* rows begin at multiples of it: id / NXM_IDS_ROW names the row */

extern __thread uint64_t nxm_ids_next __attribute__((tls_model("initial-exec"))); /* a multiple of the row: it is used up */
uint64_t nxm_ids_begin_row(void);
uint64_t nxm_ids_bound(void); /* above every id that any thread has been given; below those of rows that begin from now on */

static inline uint64_t nxm_block_next_id(void)
{
    uint64_t id = nxm_ids_next % NXM_IDS_ROW != 0 ? nxm_ids_next : nxm_ids_begin_row();

    nxm_ids_next = id + 1;
    return id;
}

#endif
