#!/bin/bash
# The simulated driver is cheap enough for random testing: instructions for a pair of an allocation and its free, counted and
# not timed. A million pairs a second is about 5,000 on the machines of today.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
[ -z "${SAN:-}" ] || { echo "ok - nothing_to_count_under_a_sanitizer"; exit 0; }
bench=$build/tests/sim/bench

instructions() { # case, pairs
    valgrind --tool=callgrind --callgrind-out-file=/dev/null "$bench" "$1" "$2" 2>&1 | sed -n 's/.*Collected : //p'
}
# What 2,000 more pairs cost, by pair: start and end cancel out.
per_pair() {
    few=$(instructions "$1" 1024) many=$(instructions "$1" 3072)
    echo $(((${many:-0} - ${few:-0}) / 2048))
}

for limit in sync:3000 sync-crowd:5000 async:4500 async-batches:5500 pool:4500; do
    found=$(per_pair "${limit%:*}")
    echo "${limit%:*}: $found instructions a pair" | tee "$work/out"
    proves "a_pair_of_${limit%:*}_is_cheap" '[ "$found" -gt 100 ]' '[ "$found" -le "${limit#*:}" ]'
done
finish
