/* The exit report: what is still live, whose it is, and what the unload gate decided. Owns nothing; called
 * from one thread; writes with write(2); memory it needs for grouping comes from nxm_mem_map, and when
 * there is none it says so and prints ungrouped totals.
 */
#ifndef NXM_REPORT_H
#define NXM_REPORT_H

#include <stddef.h>
#include <stdint.h>

#include "allocator.h"
#include "blocks.h"
#include "module.h"
#include "options.h"

struct nxm_amount {
    uint64_t blocks, bytes;
};

/* Filled by the caller; all pointers borrowed for the call. */
struct nxm_report {
    const char *version;   /* of the shim */
    const char *program;   /* path of the executable */
    int pid;
    const char *plugin;    /* path, or NULL when none was loaded */
    const char *mechanism; /* or NULL */
    struct nxm_blocks *const *tables;
    size_t table_count;
    const char *const *api_names; /* indexed by nxm_block.api */
    size_t api_count;
    struct nxm_amount reclaimed_by_reset, freed_during_exit, quarantined;
    struct nxm_amount imported, unknown_frees, freed_out_of_sight;
    uint64_t views;
    uint64_t misuse; /* frees answered with an error: double, foreign, interior */
    uint64_t owned_bytes, mapped_bytes;
    struct nxm_gate gate;       /* as X1 found it */
    int gate_known;             /* 0: X1 never ran (no plugin was loaded) */
    const char *gate_extra;     /* further reason, e.g. "a thread was inside the shim", or NULL */
    struct nxm_module_counters counters;
    const char *note;           /* one more line, or NULL (e.g. uncovered entry points) */
};

/* Expands %p %h %e %r %% of NXMEM_REPORT. */
void nxm_report_path(const char *pattern, char *ret_path, size_t capacity);

/* Number of leaked blocks (classes with `leak`), what NXMEM_LEAK_EXIT_CODE looks at. */
uint64_t nxm_report_leaks(const struct nxm_report *report);

/* Writes to `fd`. 0 or NXM_ENOMEM (degraded) or NXM_EINVAL (write failed). */
int nxm_report_write(int fd, const struct nxm_report *report, enum nxm_report_format format);

#endif
