#!/bin/bash
# One thing fails, once: each call of the driver in turn, whoever makes it, and each request of the shim for memory in turn
# (programs/torture.c). Nothing is lost, nothing reused too early, the program sees the driver's failure or none, and the plugin goes
# exactly when nothing of it is left.
#
#   NXMEM_TEST_TORTURE=SECONDS   for each scenario (6): what is not tried by then is left out. `whole`: all, by two codes
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
. tests/integration/shim.sh
faulty=$here/tests/plugins/faulty.so
seconds=${NXMEM_TEST_TORTURE:-6} whole=
[ "$seconds" != whole ] || seconds=100000 whole=whole
[ -z "${SAN:-}" ] || seconds=1
failing=:$here/tests/integration/preload/failing_memory.so
[ -z "${SAN:-}" ] || failing= # a sanitizer's memory is its own

plugins="direct direct_and_deferred_frees host host_and_deferred_frees driver_memory a_companion"
environment_of() {
    case $1 in
    direct) echo NXMEM_FREE=sync ;;
    direct_*) echo NXMEM_FREE=deferred ;;
    host) echo NXMEM_PLUGIN=host NXMEM_HOST_AS_DEVICE=1 SIMCUDA_HOST_MEMORY=1 ;;
    host_*) echo NXMEM_PLUGIN=host NXMEM_HOST_AS_DEVICE=1 SIMCUDA_HOST_MEMORY=1 NXMEM_FREE=deferred ;;
    driver_memory) echo NXMEM_PLUGIN="$faulty" NXMEM_MECHANISM=faulty NXMEM_FAULTY=sound ;;
    a_companion) echo NXMEM_PLUGIN="$faulty" NXMEM_MECHANISM=faulty NXMEM_FAULTY=sound NXMEM_FAULTY_COMPANION=1 ;;
    esac
}

# All at once: mostly they wait for processes.
begin() { # plugin
    local at=$work/$1
    rm -rf "$at"
    mkdir -p "$at/reports"
    # shellcheck disable=SC2046 # words
    (timeout 7200 env NXMEM_REPORT="$at/reports/%p" NXMEM_REPORT_FORMAT=json NXMEM_STACKS=0 LD_PRELOAD="$preload$failing" \
        $(environment_of "$1") "$programs/torture" "$scenario" "$seconds" "$at/reports" $whole >"$at/out" 2>"$at/err" </dev/null
    echo $? >"$at/status") &
}
look_at() { # plugin
    cp "$work/$1/out" "$work/$1/err" "$work/"
    status=$(cat "$work/$1/status")
    grep '^#' "$work/out" | sed "s/:/ with $1:/"
    proves "every_failure_is_taken_in_${scenario}_with_$1" 'exits 0' 'prints "failures tried"'
}

for scenario in streams capture contexts questions threads; do
    run "$programs/torture" $scenario $seconds "$work" $whole
    proves "every_failure_is_taken_in_${scenario}_natively" 'exits 0'
    for plugin in $plugins; do begin $plugin; done
    wait
    for plugin in $plugins; do look_at $plugin; done
done
finish
