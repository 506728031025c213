/* What tests of the report need: a table to fill, the report of it in memory, and two stacks that differ. */
#ifndef REPORTING_H
#define REPORTING_H

#include <stdbool.h>
#include <stdint.h>

#include "core/blocks.h"
#include "core/report.h"

#define REPORTING_BASE UINT64_C(0x7f0000000000)

struct reporting {
    struct nxm_blocks *table;
    struct nxm_report report; /* of that table, with a plugin; the gate was not asked */
    uint64_t next;
};

int reporting_setup(void **state); /* *state is a struct reporting */
int reporting_teardown(void **state);

/* A live block at an address of its own. API 1 is cudaMalloc, 2 cuMemAlloc_v2, 3 cudaMallocHost; the others have no name. */
struct nxm_block reporting_add(struct reporting *f, enum nxm_class class_, uint64_t bytes, unsigned api, int device, uint32_t stack);

char *reporting_written(struct reporting *f, enum nxm_report_format format, int expected); /* owned by the caller */
bool reporting_has_line(const char *text, const char *line);
void reporting_assert_line(struct reporting *f, const char *line); /* of the text, written without trouble */

/* Both pass through libc, for frames of this program are left out at the top. */
uint32_t stack_through_qsort(void);
uint32_t stack_through_the_loader(void);

#endif
