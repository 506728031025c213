#!/bin/bash
# What a block costs the live-block table, inserted, claimed and removed, in instructions, which are counted and not timed; the 64 of
# the program that does it are among them. Start and end cancel out.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
[ -z "${SAN:-}" ] || { echo "ok - nothing_to_count_under_a_sanitizer"; exit 0; }
bench=$build/tests/bench/bench_table

instructions() { # live, pairs
    valgrind --tool=callgrind --callgrind-out-file=/dev/null "$bench" pair "$@" 2>&1 | sed -n 's/.*Collected : //p'
}
each() { # live
    local few many
    few=$(instructions "$1" 1000) many=$(instructions "$1" 11000)
    echo $(((${many:-0} - ${few:-0}) / 10000))
}

beside_few=$(each 1000) beside_many=$(each 30000)
echo "a block: $beside_few beside 1,000 others, $beside_many beside 30,000" | tee "$work/out"
proves a_block_costs_the_table_no_more_than_it_did '[ "$beside_few" -gt 200 ]' '[ "$beside_few" -le 330 ]'
proves it_does_so_beside_many_others '[ "$beside_many" -le $((beside_few + 10)) ]' '[ "$beside_many" -gt 200 ]'

# Kernels before 5.14 populate nothing: there each page is a fault.
run "$bench" faults 1000000
read -r faulting populated <"$work/out"
echo "of a million insertions $faulting are interrupted by a fault; $populated pages are populated by calls"
if printf '5.14\n%s\n' "$(uname -r)" | sort -CV; then
    proves an_insertion_seldom_faults '[ "${faulting:-0}" -ge 1 ]' '[ "${faulting:-1000000}" -le 220 ]' '[ "${populated:-0}" -ge 25000 ]'
else
    proves an_insertion_seldom_faults '[ "${faulting:-0}" -ge 1 ]' '[ "${faulting:-1000000}" -le 36000 ]' '[ "${populated:-1}" = 0 ]'
fi
finish
