#!/bin/bash
# Programs made from seeds are the same natively and under the shim, whatever serves them and whichever driver is there: what
# each call answers, the oracle's silence, and nothing on standard error.
#
#   NXMEM_TEST_SEEDS        how many programs (300; each of test_random.sh, test_random_2.sh … takes its quarter)
#   NXMEM_TEST_SEED=N       that one alone, with every kind of program on every driver
#
# A seed that found something is a line of seeds.txt, a test with a name. A program is what it is by its seed, its words and the
# driver; each seed has one kind and one driver, in turn.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
. tests/integration/shim.sh
program=$programs/random
faulty=$here/tests/plugins/faulty.so
part=${NXMEM_TEST_PART:-1} seeds=$((${NXMEM_TEST_SEEDS:-300} / 4))
if [ -n "${SAN:-}" ]; then
    seeds=2
    export TSAN_OPTIONS="${TSAN_OPTIONS:-}:atexit_sleep_ms=0:report_thread_leaks=0"
fi
first=$(((part - 1) * seeds + 1))
calls=300
plain=$LD_LIBRARY_PATH
drivers=(13.0 12.4 11.4)
kinds=(narrow wide wide,careful)

# A transcript that differs, a line on standard error or another status: it is named.
compare() { # label, environment…
    local label=$1
    shift
    shimmed NXMEM_STACKS=0 "$@" "$program" "$seed" $calls "$words"
    same_output && same_status && is_silent || differing="$differing $label"
}
sound() { compare "sound-$1" NXMEM_PLUGIN="$faulty" NXMEM_MECHANISM=faulty NXMEM_FAULTY=sound NXMEM_FREE="$1"; }
host() { compare "host-$1" NXMEM_PLUGIN=host NXMEM_HOST_AS_DEVICE=1 SIMCUDA_HOST_MEMORY=1 NXMEM_FREE="$1"; }
is_sound_natively() {
    native "$program" "$seed" $calls "$words"
    keep_native
    [ "$status" = 0 ] && is_silent && prints "sim_violations() = 0" && prints "wrong = 0"
}

is_the_same() { # test name, seed, kind of program, driver
    local kind=$3 free
    seed=$2
    export LD_LIBRARY_PATH=$here/sim/$4:$plain # there is none of 13.0: that is the plain one
    export SIMCUDA_DEVICES=1 SIMCUDA_FREE_WAITS=1
    case $kind in *wide*) SIMCUDA_DEVICES=2 ;; esac
    case $kind in *careful*) SIMCUDA_FREE_WAITS=0 ;; esac
    differing=
    words=$kind
    is_sound_natively || differing=" native"
    for free in sync deferred; do
        compare "direct-$free" NXMEM_FREE=$free
        host $free
    done
    words=$kind,calm # driver memory that knows nothing of streams waits for all of them, and dies with its context
    is_sound_natively || differing="$differing native-calm"
    sound sync
    sound deferred
    proves "$1" '[ -z "$differing" ]'
}

if [ -n "${NXMEM_TEST_SEED:-}" ]; then
    for kind in "${kinds[@]}"; do
        for driver in "${drivers[@]}"; do
            is_the_same "program_${NXMEM_TEST_SEED}_${kind}_on_driver_$driver" "$NXMEM_TEST_SEED" "$kind" "$driver"
        done
    done
    finish
    exit
fi

[ "$part" = 1 ] && while read -r name number kind driver; do
    case $name in '' | '#'*) continue ;; esac
    is_the_same "$name" "$number" "$kind" "$driver"
done <tests/integration/seeds.txt

for ((number = first; number < first + seeds; number++)); do
    kind=${kinds[number / 3 % 3]} driver=${drivers[number % 3]}
    is_the_same "program_${number}_${kind}_on_driver_$driver" "$number" "$kind" "$driver"
    [ $(((number - first + 1) % 250)) != 0 ] || echo "# $((number - first + 1)) of $seeds programs, $failures of them differ"
done
finish
