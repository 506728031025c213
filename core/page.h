/* Text that grows and goes to a descriptor in one write, or in few when memory is short. Owns its buffer; for
 * one thread; no locks.
 */
#ifndef NXM_PAGE_H
#define NXM_PAGE_H

#include <stddef.h>
#include <stdint.h>

#include "text.h"

#define NXM_PAGE_SMALL 1024 /* used where nothing can be mapped; a longer single piece is then cut */

struct nxm_page {
    int fd;
    int result; /* of the writes so far */
    struct nxm_text text;
    char *mapped; /* NULL: the small buffer serves */
    size_t mapped_bytes;
    char small[NXM_PAGE_SMALL];
};

void nxm_page_init(struct nxm_page *page, int fd); /* not to be moved afterwards */
void nxm_page_printf(struct nxm_page *page, const char *format, ...) __attribute__((format(printf, 2, 3)));
void nxm_page_bytes(struct nxm_page *page, uint64_t bytes); /* "1.50 MiB" */
void nxm_page_json(struct nxm_page *page, const char *s);   /* "…" with its quotes; null for NULL */

/* Writes what is left and frees the buffer. NXM_OK, or NXM_EINVAL when a write failed. */
int nxm_page_clear(struct nxm_page *page);

#endif
