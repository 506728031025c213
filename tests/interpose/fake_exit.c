/* The unit tests of interpose/ end like any program: no exit handlers of ours. */
#include "interpose/exit.h"

void nxm_exit_register(void) {}

int nxm_exit_gate(struct nxm_gate *ret_gate, const char **ret_extra)
{
    *ret_gate = (struct nxm_gate){ .reason = NXM_GATE_OPEN };
    *ret_extra = 0;
    return 0;
}
