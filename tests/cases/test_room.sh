#!/bin/bash
# What has been freed is room for whoever asks next: from another context, and while other threads have it in hand.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
. tests/integration/shim.sh
. tests/cases/same.sh

same room_of_another_context SIMCUDA_MEMORY=64M "$cases/room-of-another-context"

fitting=(SIMCUDA_MEMORY=16M NXMEM_OOM_WAIT_MS=5000)
modes="direct deferred vmm" # those whose releases take no longer than the driver's
for kind in ordered synchronous; do
    same "blocks_that_fit_$kind" "${fitting[@]}" "$cases/blocks-that-fit" $kind
done
modes=vmm
same blocks_that_fit_deferred NXMEM_FREE=deferred "${fitting[@]}" "$cases/blocks-that-fit" synchronous
finish
