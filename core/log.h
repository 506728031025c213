/* One line at a time to standard error. Owns the verbosity; any thread; no lock, no malloc, no stdio.
 *
 * Every line starts with "nxmem: " and ends with one newline, written by a single write(2). errno is
 * preserved. Warnings are silenced in a forked child.
 */
#ifndef NXM_LOG_H
#define NXM_LOG_H

#include <stdatomic.h>

#include "here.h"

enum nxm_log_level {
    NXM_LOG_NOTHING = -1,    /* as a level to set: warnings are kept back too */
    NXM_LOG_WARNING = 0, /* something is wrong: cause and remedy in one line; shown unless NOTHING is */
    NXM_LOG_INFO = 1,    /* NXMEM_VERBOSE=1 */
    NXM_LOG_DEBUG = 2,   /* NXMEM_VERBOSE=2 */
};

extern NXM_HERE atomic_int nxm_log_shown;

/* Where even the call would be felt. */
static inline int nxm_log_shows(enum nxm_log_level level)
{
    return (int)level <= atomic_load_explicit(&nxm_log_shown, memory_order_relaxed);
}

void nxm_log_set_level(enum nxm_log_level level);
enum nxm_log_level nxm_log_level(void);
void nxm_log(enum nxm_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Shows a warning the first time it is reached with this flag (static storage of the caller, zero). */
void nxm_log_once(int *flag, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
