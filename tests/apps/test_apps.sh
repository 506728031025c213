#!/bin/bash
# What the programs say they leave behind is what the simulated driver sees, whichever way they reach it. From the top of
# the tree; BUILD says where it was built.
set -u

build=${BUILD:-build}
out=$build/apps
failures=0

# proves NAME COMMAND…
proves() {
    local name=$1
    shift
    if "$@"; then
        echo "ok - $name"
    else
        echo "not ok - $name"
        failures=$((failures + 1))
    fi
}

run() {
    rm -f "$out/$1.log"
    LD_LIBRARY_PATH=$build/sim SIMCUDA_LOG=$out/$1.log timeout 300 "$out/$1" >"$out/$1.out" || return 1
    tests/sim/traffic "$out/$1.log" >"$out/$1.traffic"
}

# leaves PROGRAM CLASS CALLS BYTES: live at the program's exit
leaves() {
    local found
    found=$(awk -v class="$2" '$1 == class { print $4, $5 }' "$out/$1.traffic")
    [ "${found:-0 0}" = "$3 $4" ] || { echo "    $2: ${found:-0 0}, not $3 $4"; return 1; }
}

exports_no_runtime() {
    ! nm -D "$1" | grep -qE ' (cuda|__cuda)'
}

refers_to() {
    nm -D "$1" | grep -q "cudaMalloc@$2"
}

for program in demo demo-static; do
    proves "${program}_runs" run $program
    proves "${program}_leaves_its_cache" leaves $program device 1 $((2 << 20))
    proves "${program}_leaves_its_scratch" leaves $program async 1 3072
    proves "${program}_frees_its_pinned_memory" leaves $program pinned 0 0
done
proves the_runtime_shared_and_static_asks_for_the_same_memory cmp -s "$out/demo.traffic" "$out/demo-static.traffic"
proves a_static_runtime_is_hidden exports_no_runtime "$out/demo-static"
proves a_shared_runtime_is_a_versioned_reference refers_to "$out/demo" libcudart.so.13
proves driver_direct_runs run driver-direct
proves driver_direct_leaves_a_synchronous_block leaves driver-direct device 1 5000
proves driver_direct_leaves_a_stream_ordered_block leaves driver-direct async 1 7000
proves two_runtimes_each_reach_their_own run two-runtimes
proves the_library_refers_to_its_own_runtime refers_to "$out/libtwelve.so" libcudart.so.12
proves two_runtimes_leave_a_block_each leaves two-runtimes device 2 10500
[ $failures -eq 0 ]
