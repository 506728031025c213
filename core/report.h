/* The exit report: what is still live, whose it is, and what the unload gate decided (docs/report.md). Owns
 * nothing; called from one thread; writes with write(2); memory for grouping comes from nxm_mem_map, and
 * when there is none it says so and prints ungrouped totals. Other threads may go on allocating: every
 * figure of one report comes from one walk.
 */
#ifndef NXM_REPORT_H
#define NXM_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "blocks.h"
#include "leaks.h"
#include "misuse.h"
#include "module.h"
#include "options.h"

struct nxm_names {
    const char *const *list;
    size_t count;
};

/* Entry points that the process resolved, whether or not it called them. */
struct nxm_coverage {
    struct nxm_names hooked, passed, unknown;
};

/* A device's memory when the program last asked for it: in use by the driver's word, and in blocks recorded here. */
struct nxm_device_memory {
    int device;
    uint64_t used, recorded;
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
    const struct nxm_suppressions *suppressions; /* or NULL */
    const char *const *api_names; /* indexed by nxm_block.api */
    size_t api_count;
    struct nxm_amount reclaimed_by_reset, freed_during_exit, quarantined;
    struct nxm_amount imported, unknown_frees, freed_out_of_sight;
    uint64_t waiting_peak_bytes; /* most that was freed by the program and waited for work, at one time */
    uint64_t views;
    uint64_t misuse; /* frees answered with an error: double, foreign, interior */
    const struct nxm_misuse *misuses; /* the first different ones of them */
    size_t misuse_count;
    uint64_t owned_bytes, mapped_bytes;
    const struct nxm_device_memory *device_memory; /* of the devices that were asked about */
    size_t device_memory_count;
    struct nxm_gate gate;       /* as X1 found it */
    int gate_known;             /* 0: X1 never ran (no plugin was loaded) */
    const char *gate_extra;     /* why the plugin stays mapped though the gate is open, or one more reason; or NULL */
    struct nxm_module_counters counters;
    struct nxm_names unknown;   /* entry points resolved that allocate by their looks, and that nobody here knows */
    struct nxm_names uncovered; /* files whose calls cannot be seen, with the reason */
    const struct nxm_coverage *coverage; /* or NULL: not asked for */
    const char *note;           /* one more line, or NULL */
};

/* Expands %p %h %e %r %% of NXMEM_REPORT; %r is the first of OMPI_COMM_WORLD_RANK, PMI_RANK, SLURM_PROCID and
 * RANK that is a number, else 0. Anything else stays as it is. A path that does not fit is given back empty:
 * a cut one would be another file. */
void nxm_report_path(const char *pattern, char *ret_path, size_t capacity);

/* Whether there is nothing to say: no table ever held a block and every other figure is zero. Such a process
 * prints nothing. */
bool nxm_report_empty(const struct nxm_report *report);

/* Number of leaked blocks (classes with `leak`, live, not suppressed), what NXMEM_LEAK_EXIT_CODE looks at. */
uint64_t nxm_report_leaks(const struct nxm_report *report);

/* Writes to `fd`. 0 or NXM_ENOMEM (written, but not grouped) or NXM_EINVAL (write failed, which standard error
 * is told unless it is what failed). */
int nxm_report_write(int fd, const struct nxm_report *report, enum nxm_report_format format);

#endif
