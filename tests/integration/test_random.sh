#!/bin/bash
# Programs made from seeds are the same natively and under the shim, whatever serves them and whichever driver is there.
# NXMEM_TEST_SEEDS: how many programs (a nightly run takes more); fewer under a sanitizer.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
. tests/integration/shim.sh
program=$programs/random
faulty=$here/tests/plugins/faulty.so
seeds=${NXMEM_TEST_SEEDS:-12} drivers="13.0 12.4 11.4"
if [ -n "${SAN:-}" ]; then
    seeds=2 drivers=13.0
    export TSAN_OPTIONS="${TSAN_OPTIONS:-}:atexit_sleep_ms=0:report_thread_leaks=0"
fi
first=${NXMEM_TEST_FIRST_SEED:-1}
calls=300
plain=$LD_LIBRARY_PATH

# A transcript that differs, a line on standard error or another status: the seed is named.
compare() { # label, environment…
    local label=$1
    shift
    shimmed NXMEM_STACKS=0 "$@" "$program" "$seed" $calls $calm
    same_output && same_status && is_silent || differing="$differing $label"
}
sound() { compare "sound-$1" NXMEM_PLUGIN="$faulty" NXMEM_MECHANISM=faulty NXMEM_FAULTY=sound NXMEM_FREE="$1"; }
host() { compare "host-$1" NXMEM_PLUGIN=host NXMEM_HOST_AS_DEVICE=1 SIMCUDA_HOST_MEMORY=1 NXMEM_FREE="$1"; }
is_sound_natively() {
    native "$program" "$seed" $calls $calm
    keep_native
    [ "$status" = 0 ] && is_silent && prints "sim_violations() = 0" && prints "wrong = 0"
}

for ((seed = first; seed < first + seeds; seed++)); do
    for driver in $drivers; do
        export LD_LIBRARY_PATH=$here/sim/$driver:$plain # there is none of 13.0: that is the plain one
        differing=
        calm=
        is_sound_natively || differing=" native"
        for free in sync deferred; do
            compare "direct-$free" NXMEM_FREE=$free
            host $free
        done
        calm=calm # driver memory that knows nothing of streams waits for all of them, and dies with its context
        is_sound_natively || differing="$differing native-calm"
        sound sync
        sound deferred
        proves "program_${seed}_is_the_same_with_every_plugin_on_driver_$driver" '[ -z "$differing" ]'
    done
done
finish
