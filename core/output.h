/* Bytes to a descriptor that belongs to the program. Owns nothing; any thread, but an output stays with the one that began it; no
 * locks.
 *
 * errno is preserved, and a closed pipe or a file that may not grow is an error like any other: the SIGPIPE or
 * SIGXFSZ that our write raises never reaches the program, which would have lived without us.
 */
#ifndef NXM_OUTPUT_H
#define NXM_OUTPUT_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

/* Between init and clear the signals that a write may raise are held back: once, however many pieces there are. */
struct nxm_output {
    int fd;
    int error;            /* errno of the first write that failed; what comes behind it is not written */
    int saved;            /* the program's errno */
    bool blocked;         /* the signals of `ours` are, by us */
    sigset_t before, ours;
};

void nxm_output_init(struct nxm_output *output, int fd);
void nxm_output_put(struct nxm_output *output, const char *bytes, size_t count); /* through interruptions and short writes */
int nxm_output_clear(struct nxm_output *output); /* 0, or NXM_EINVAL when the descriptor took not all of it */

/* All three. */
int nxm_output_write(int fd, const char *bytes, size_t count);

#endif
