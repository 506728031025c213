/* The options, read once from the environment (secure_getenv). Owns the parsed values, texts included: a
 * program may overwrite its environment later (setproctitle does), and the report is written at exit.
 *
 * nxm_options_read may run only once, from the lifecycle's first use, before any other thread reads; no
 * malloc, no lock. An empty value means the default. A bad value warns, names the accepted ones and leaves
 * the default. A NXMEM_* name that is almost an option's warns and names the option; names further away
 * are left alone (a plugin may have variables of its own), and so is NXMEM_TEST….
 */
#ifndef NXM_OPTIONS_H
#define NXM_OPTIONS_H

#include <stddef.h>

enum nxm_on_error { NXM_ON_ERROR_NATIVE = 0, NXM_ON_ERROR_FAIL = 1 };
enum nxm_free_mode { NXM_FREE_SYNC = 0, NXM_FREE_DEFERRED = 1 };
enum nxm_report_format { NXM_REPORT_TEXT = 0, NXM_REPORT_JSON = 1 };
enum nxm_unwinder { NXM_UNWINDER_TABLES = 0, NXM_UNWINDER_FRAME_POINTERS = 1, NXM_UNWINDER_LIBC = 2 };

#define NXM_OPTION_TEXT const char *
#define NXM_OPTION_COUNT unsigned
#define NXM_OPTION_CHOICE unsigned

struct nxm_options {
#define OPTION(field, type, name, fallback, values, help) NXM_OPTION_##type field;
#include "options.def"
#undef OPTION
};

void nxm_options_read(struct nxm_options *ret_options);

/* The variable that `name`, of `length` bytes, almost is; NULL when it is one, or far from all. */
const char *nxm_options_almost(const char *name, size_t length);

#endif
