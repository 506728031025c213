/* Memory for our own bookkeeping. Owns nothing; any thread; takes no lock of ours.
 *
 * One door for all of it, so that a test can make the n-th request fail (nxm_mem_fail_at) and see that
 * every caller rolls back. Objects come from malloc (sanitizers see their ends); large tables from
 * nxm_mem_map, whole pages outside the program's heap.
 */
#ifndef NXM_MEM_H
#define NXM_MEM_H

#include <stddef.h>

void *nxm_mem_new(size_t bytes);                 /* zero-filled, NULL when there is none */
void nxm_mem_free(void *object);                 /* takes NULL */
void *nxm_mem_map(size_t bytes);                 /* zero-filled pages, NULL when there is none */
void *nxm_mem_map_kept(size_t bytes);            /* the same for what a report is made from: in the journal, if there is one */
void nxm_mem_unmap(void *pages, size_t bytes);   /* takes NULL */

/* From now on nxm_mem_map_kept takes from the arena, as long as it has room. */
struct nxm_arena;
void nxm_mem_live_in(struct nxm_arena *arena, int fd);

/* Test hook: the n-th request from now (1 = the next) fails, once; 0 turns it off. */
void nxm_mem_fail_at(unsigned long n);

#endif
