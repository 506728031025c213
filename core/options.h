/* The options, read once from the environment (secure_getenv). Owns the parsed values.
 *
 * nxm_options_read may run only once, from the lifecycle's first use, before any other thread reads; a
 * bad value warns once, names the accepted ones and leaves the default. A misspelt NXMEM_* name in the
 * environment warns once and names the nearest option.
 */
#ifndef NXM_OPTIONS_H
#define NXM_OPTIONS_H

enum nxm_on_error { NXM_ON_ERROR_NATIVE = 0, NXM_ON_ERROR_FAIL = 1 };
enum nxm_free_mode { NXM_FREE_SYNC = 0, NXM_FREE_DEFERRED = 1 };
enum nxm_report_format { NXM_REPORT_TEXT = 0, NXM_REPORT_JSON = 1 };

#define NXM_OPTION_TEXT const char *
#define NXM_OPTION_COUNT unsigned
#define NXM_OPTION_CHOICE unsigned

struct nxm_options {
#define OPTION(field, type, name, fallback, values, help) NXM_OPTION_##type field;
#include "options.def"
#undef OPTION
};

void nxm_options_read(struct nxm_options *ret_options);

#endif
