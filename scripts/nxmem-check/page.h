/* Memory that ends where it says: the byte behind it is not there. For structs that a plugin reads or writes by
 * their declared size, and for pointers that it may not keep. */
#ifndef NXMEM_CHECK_PAGE_H
#define NXMEM_CHECK_PAGE_H

#include <stddef.h>

/* `bytes` zeroed bytes, aligned to 8 when `bytes` is a multiple of it, the last one at the end of a mapping. Never
 * given back but by page_close. At most a page. */
void *page_ending(size_t bytes);

/* Takes it all away: who kept the pointer and uses it crashes. */
void page_close(void *memory);

#endif
