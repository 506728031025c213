/* One line at a time to standard error. Owns the verbosity; any thread; no lock, no malloc, no stdio.
 *
 * Every line starts with "nxmem: " and ends with one newline, written by a single write(2). errno is
 * preserved. Warnings are silenced in a forked child.
 */
#ifndef NXM_LOG_H
#define NXM_LOG_H

enum nxm_log_level {
    NXM_LOG_WARNING = 0, /* something is wrong: cause and remedy in one line; always shown */
    NXM_LOG_INFO = 1,    /* NXMEM_VERBOSE=1 */
    NXM_LOG_DEBUG = 2,   /* NXMEM_VERBOSE=2 */
};

void nxm_log_set_level(enum nxm_log_level level);
enum nxm_log_level nxm_log_level(void);
void nxm_log(enum nxm_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Shows a warning the first time it is reached with this flag (static storage of the caller, zero). */
void nxm_log_once(int *flag, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
