#!/bin/bash
# What the programs say they leave behind is what the simulated driver sees, whichever way they reach it.
set -u

cd "$(dirname "$0")/../.." || exit 1
build=$PWD/${BUILD:-build}
here=tests/apps
out=$build/apps
failed=0

fail() {
    echo "FAILED: $*"
    failed=1
}

# leaves PROGRAM CLASS CALLS BYTES: live at the program's exit
leaves() {
    local found
    found=$(awk -v class="$2" '$1 == class { print $4, $5 }' "$out/$1.traffic")
    [ "${found:-0 0}" = "$3 $4" ] || fail "$1 leaves $2 ${found:-0 0}, not $3 $4"
}

run() {
    rm -f "$out/$1.log"
    LD_LIBRARY_PATH=$build/sim SIMCUDA_LOG=$out/$1.log timeout 60 "$out/$1" >"$out/$1.out" || fail "$1 exits with $?"
    "$here/../sim/traffic" "$out/$1.log" >"$out/$1.traffic"
}

for program in demo demo-static; do
    run $program
    leaves $program device 1 $((2 << 20))
    leaves $program async 1 3072
    leaves $program pinned 0 0
done
cmp -s "$out/demo.traffic" "$out/demo-static.traffic" || fail "the two demos differ in what they allocate"
run driver-direct
leaves driver-direct device 1 5000
leaves driver-direct async 1 7000
run two-runtimes
leaves two-runtimes device 2 10500

if nm -D "$out/demo-static" | grep -qE ' (cuda|__cuda)'; then
    fail "demo-static exports its runtime"
fi
nm -D "$out/demo" | grep -q 'cudaMalloc@libcudart.so.13' || fail "demo does not refer to a versioned runtime"
nm -D "$out/libtwelve.so" | grep -q 'cudaMalloc@libcudart.so.12' || fail "libtwelve does not refer to CUDA 12's runtime"

[ $failed -eq 0 ] && echo "PASSED: programs on the simulated device"
exit $failed
