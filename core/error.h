/* Filling struct nxm_error. Owns nothing; any thread; no locks, no malloc. */
#ifndef NXM_ERROR_H
#define NXM_ERROR_H

#include <stddef.h>
#include <stdint.h>

#include "result.h"

/* Writes code, the plugin's status and one line of text, cut where it must be; returns the code, so that
 * `return nxm_error_set(…)` ends a function. `ret_error` may be NULL. */
int nxm_error_set(struct nxm_error *ret_error, enum nxm_result code, uint32_t status, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
