#!/bin/bash
# What only a real device can say: the transcripts of tests/integration/programs natively and under the shim, and the demo's
# report, on the machine's own driver. Skips, visibly, where there is no GPU. A few minutes at most.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
. tests/integration/shim.sh
export LD_LIBRARY_PATH=${NXMEM_TEST_GPU_LIBRARY_PATH:-} # the machine's driver, not the simulated one

if ! { [ -e /dev/nvidiactl ] || [ -e /dev/dxg ]; } || ! "$programs/nothing" >/dev/null 2>&1; then
    echo "skipped: no GPU (no device node, or no driver that answers)"
    exit 77
fi
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null

for program in sync async kinds vmm contexts threads capture; do
    native "$programs/$program"
    keep_native
    sed "s/^/$program: /" "$work/native.out"
    proves "${program}_runs_natively_on_the_device" '[ "$status" = 0 ]'
    shimmed "$programs/$program"
    proves "${program}_is_the_same_with_direct_on_the_device" same_output same_status same_errors
done
finish
