/* A shared library opened as a plugin: the loader's handle and where its code lies. Owns the handle; any
 * thread; no locks (none may be held: opening and closing run foreign code).
 */
#ifndef NXM_LIBRARY_H
#define NXM_LIBRARY_H

#include <stdint.h>

#include "code.h"
#include "result.h"

struct nxm_library {
    void *handle;
    struct nxm_code code; /* the pages of its segments */
};

/* RTLD_LAZY | RTLD_LOCAL, the very file `path` names (no search). The file is looked at first: the loader's own
 * words for a directory, a truncated or a 32-bit file are no help, and a file cut short can kill the process.
 * NXM_EOPEN. */
int nxm_library_open(const char *path, struct nxm_library *ret_library, struct nxm_error *ret_error);
void nxm_library_close(struct nxm_library *library);

/* NULL if absent. */
void *nxm_library_symbol(const struct nxm_library *library, const char *name);

#endif
