/* Pages of memory that is nobody's yet, touched by one call instead of a fault each: a fault is dear on many a virtual machine, 16 us
 * instead of one.
 */
#ifndef NXM_POPULATE_H
#define NXM_POPULATE_H

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>

#define NXM_POPULATE_PAGE 4096u

/* Whole pages; what they hold stays, and errno. 0, or there is no room for them (ENOMEM, EFAULT: none on the disk), or the kernel is older
 * than 5.14 (EINVAL) or forbids it (any other): then each is touched by who first comes to it. */
static inline int nxm_populate(void *pages, size_t bytes)
{
    int before = errno, error = madvise(pages, bytes, 23) == 0 ? 0 : errno; /* MADV_POPULATE_WRITE, which older headers lack */

    errno = before;
    return error;
}

#endif
