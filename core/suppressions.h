/* Leaks that the user asked to leave out, in LeakSanitizer's syntax: one `leak:pattern` a line, `#` comments.
 * A pattern is looked for anywhere in the path of a frame's module and in its symbol; `*` stands for any
 * characters, `^` at the start and `$` at the end of a pattern bind it to that end. Owns the rules; read
 * only after loading, by any thread; no locks, no stdio, no malloc.
 */
#ifndef NXM_SUPPRESSIONS_H
#define NXM_SUPPRESSIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "stack.h"

struct nxm_suppressions;

/* Lines that are not understood warn with their number and are skipped. NXM_EINVAL: the file cannot be read,
 * is no regular file or is larger than a mebibyte, which warns too; NXM_ENOMEM. */
int nxm_suppressions_load(const char *path, struct nxm_suppressions **ret_suppressions);
void nxm_suppressions_free(struct nxm_suppressions *suppressions); /* takes NULL */

/* Whether a rule matches one of the frames. NULL has no rules. */
bool nxm_suppressions_match(const struct nxm_suppressions *suppressions, const struct nxm_frame *frames, size_t count);

#endif
