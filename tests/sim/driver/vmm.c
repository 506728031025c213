#include "vmm.h"
bool sim_vmm_reserved(uint64_t address) { (void)address; return false; }
