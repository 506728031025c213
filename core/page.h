/* Text of any length on its way to a descriptor: in one write when it is short, else in pieces that end with a line, so that what
 * others write to the same place does not come between. Owns its buffer, which does not grow: memory that nobody touched before
 * takes longer to come than a line to be made, and at exit there may be none left. For one thread; no locks.
 */
#ifndef NXM_PAGE_H
#define NXM_PAGE_H

#include <stddef.h>
#include <stdint.h>

#include "output.h"
#include "text.h"

#define NXM_PAGE_BYTES ((size_t)16 << 10) /* more cost more to touch, fewer more to write out */
#define NXM_PAGE_SMALL 1024              /* used where nothing can be mapped */

struct nxm_page {
    struct nxm_text text; /* first; it makes room by itself */
    struct nxm_output output;
    char *mapped;         /* NULL: the small buffer serves */
    char small[NXM_PAGE_SMALL];
};

void nxm_page_init(struct nxm_page *page, int fd); /* not to be moved afterwards */
void nxm_page_printf(struct nxm_page *page, const char *format, ...) __attribute__((format(printf, 2, 3)));
void nxm_page_bytes(struct nxm_page *page, uint64_t bytes); /* "1.50 MiB" */
void nxm_page_json(struct nxm_page *page, const char *s);   /* "…" with its quotes; null for NULL */

/* Writes what is left and frees the buffer. NXM_OK, or NXM_EINVAL when a write failed. */
int nxm_page_clear(struct nxm_page *page);

#endif
