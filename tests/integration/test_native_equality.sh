#!/bin/bash
# A program's transcript is the same natively and under the shim with each plugin: codes, out-parameters, what is left.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
. tests/integration/shim.sh

for program in sync async kinds vmm contexts threads capture order; do
    native "$programs/$program"
    keep_native
    proves "${program}_runs_natively" '[ "$status" = 0 ]' is_silent
    shimmed "$programs/$program"
    proves "${program}_is_the_same_with_direct" same_output same_status same_errors
    shimmed NXMEM_FREE=deferred NXMEM_STACKS=0 "$programs/$program"
    proves "${program}_is_the_same_with_direct_and_deferred_frees" same_output same_status same_errors
    on_host "$programs/$program"
    proves "${program}_is_the_same_with_host" same_output same_status same_errors
    on_host NXMEM_FREE=deferred "$programs/$program"
    proves "${program}_is_the_same_with_host_and_deferred_frees" same_output same_status same_errors
    shimmed NXMEM_PLUGIN=/nonexistent/plugin.so "$programs/$program"
    proves "${program}_is_the_same_without_a_plugin" same_output same_status says_one_line
done
finish
