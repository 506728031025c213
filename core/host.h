/* What the files of libnxmem_host's public face share: structs that may grow, core's results as classes. Owns nothing; any
 * thread; no locks.
 */
#ifndef NXM_HOST_H
#define NXM_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "nxmem_host.h"
#include "provider.h"
#include "result.h"

/* What the first version of each public struct had: no caller was ever compiled with less. */
enum {
    NXM_FIRST_ERROR = 464,
    NXM_FIRST_MECHANISM = 32,
    NXM_FIRST_BLOCK = 56,
    NXM_FIRST_RELEASE_RESULT = 40,
    NXM_FIRST_OPTIONS = 80,
    NXM_FIRST_STATISTICS = 128,
    NXM_FIRST_PREFIX_FACTS = 40,
    NXM_FIRST_VIEW = 32,
    NXM_FIRST_GATE = 88,
    NXM_FIRST_COUNTERS = 40,
};

bool nxm_host_is_whole(const void *sized, uint32_t first); /* false for NULL, and for a struct smaller than its first version */

/* Fills the caller's struct as far as it goes, `own` bytes at most; its struct_size and what it has beyond stay. One that is not
 * whole is left alone. */
void nxm_host_give(void *ret, const void *value, uint32_t own, uint32_t first);

/* Core's result as a class; on failure the details go to `error` (NULL allowed). */
int nxm_host_answer(int result, const struct nxm_error *found, nxmem_host_error *error);
int nxm_host_refuse(nxmem_host_error *error, const char *why); /* NXMEM_HOST_ARGUMENT */

struct nxm_provider *nxm_host_provider(nxmem_host_provider *provider);

#endif
