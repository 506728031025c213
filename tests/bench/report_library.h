/* What is measured by bench_report: the list of a report, in a library of its own, whose frames are left out of the stacks as
 * the shim's are. */
#ifndef REPORT_LIBRARY_H
#define REPORT_LIBRARY_H

#include <stddef.h>
#include <stdint.h>

/* Prints how long the list of `live` blocks with these stacks takes, and fprintf for the same lines. 0, or 1 with a word why not. */
int bench_report(const uint32_t *stacks, size_t count, size_t live);

#endif
