/* Bytes to a descriptor that belongs to the program. Owns nothing; any thread; no locks.
 *
 * errno is preserved, and a closed pipe or a file that may not grow is an error like any other: the SIGPIPE or
 * SIGXFSZ that our write raises never reaches the program, which would have lived without us.
 */
#ifndef NXM_OUTPUT_H
#define NXM_OUTPUT_H

#include <stddef.h>

/* Writes everything, through interruptions and short writes. 0, or NXM_EINVAL when the descriptor takes no more. */
int nxm_output_write(int fd, const char *bytes, size_t count);

#endif
