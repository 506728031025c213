/* The unit tests of interpose/ end like any program: no exit handlers of ours. */
#include "interpose/exit.h"

void nxm_exit_register(void) {}
