#!/bin/bash
# Every allocation that the driver saw is in the report by class, and nothing twice: the driver's own log against the report.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
. tests/integration/shim.sh

# column CLASS N of the driver's tally: 2 calls, 3 bytes, 4 live calls, 5 live bytes
column() { awk -v class="$1" -v n="$2" '$1 == class { v = $n } END { print v + 0 }' "$work/traffic"; }
sum() { echo $(($(class_field "$1" "$3") + $(class_field "$2" "$3"))); }

ever_agrees() { # our class, the driver's
    [ "$(class_field "$1" ever_blocks) $(class_field "$1" ever_bytes)" = "$(column "$2" 2) $(column "$2" 3)" ]
}
live_agrees() {
    [ "$(class_field "$1" live_blocks) $(class_field "$1" live_bytes)" = "$(column "$2" 4) $(column "$2" 5)" ]
}
device_agrees() {
    [ "$(sum DEVICE NATIVE ever_blocks)" = $(($(column device 2) + $(column async 2))) ] &&
        [ "$(sum DEVICE NATIVE ever_bytes)" = $(($(column device 3) + $(column async 3))) ] &&
        [ "$(sum DEVICE NATIVE live_bytes)" = $(($(column device 5) + $(column async 5))) ]
}

logged() {
    rm -f "$work/log"
    json SIMCUDA_LOG="$work/log" "$@"
    tests/sim/traffic "$work/log" >"$work/traffic"
}

for program in demo demo-static driver-direct two-runtimes; do
    logged "$here/apps/$program"
    proves "${program}_agrees_with_the_drivers_log" 'exits 0' device_agrees 'ever_agrees PINNED pinned' 'live_agrees PINNED pinned'
done
logged "$programs/vmm"
proves "vmm_agrees_with_the_drivers_log" 'ever_agrees VMM_RESERVED reserved' 'live_agrees VMM_RESERVED reserved' \
    'ever_agrees VMM_CREATED created' 'ever_agrees VMM_MAPPED mapped' 'live_agrees VMM_MAPPED mapped'
finish
