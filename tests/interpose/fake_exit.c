/* The unit tests of interpose/ end like any program, without exit handlers of ours, and ask for functions by no route of ours. */
#include "interpose/coverage.h"
#include "interpose/exit.h"
#include "interpose/route_names.h"

void nxm_exit_register(void) {}

void nxm_coverage_fill(struct nxm_report *report)
{
    (void)report;
}

void nxm_names_keep_in(struct nxm_noted_table *unknown, struct nxm_noted_table *uncovered)
{
    (void)unknown, (void)uncovered;
}

bool nxm_names_free_unseen(void)
{
    return false;
}
