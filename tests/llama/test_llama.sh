#!/bin/bash
# The prebuilt llama.cpp of CUDA 13 and of CUDA 12 run to their end on the simulated device, their
# memory traffic takes every road that the real one takes, and what they dispose of is given back to the driver.
set -u

cd "$(dirname "$0")/../.." || exit 1
build=$PWD/${BUILD:-build}
here=tests/llama
out=$build/llama
failed=0

fail() {
    echo "FAILED: $*"
    failed=1
}

# run NAME ARGUMENT…: native, with the driver's log in $out/NAME.log and its tally in $out/NAME.traffic
run() {
    local name=$1
    shift
    rm -f "$out/$name.log"
    if ! LD_LIBRARY_PATH=$build/sim SIMCUDA_LOG=$out/$name.log timeout 120 node "$@" >"$out/$name.out" 2>&1; then
        tail -n 20 "$out/$name.out"
        fail "$name: does not end well"
    fi
    "$here/../sim/traffic" "$out/$name.log" >"$out/$name.traffic"
}

# A column of a class's line: 2 calls, 3 bytes, 4 live calls, 5 live bytes
column() {
    awk -v class="$2" -v column="$3" '$1 == class { found = 1; print $column } END { if (!found) print 0 }' "$out/$1.traffic"
}

takes_every_road() {
    local class
    for class in device pinned reserved created mapped; do
        [ "$(column "$1" $class 2)" -gt 0 ] || fail "$1: no $class memory"
    done
    [ "$(column "$1" reserved 3)" -ge $((32 << 30)) ] || fail "$1: the pool did not reserve 32 GiB"
    [ "$(column "$1" device 2)" -ge 3 ] || fail "$1: weights, KV cache and compute buffer are three blocks at least"
}

keeps_nothing() {
    local class
    for class in device async managed pinned registered reserved created mapped; do
        [ "$(column "$1" $class 4)" -eq 0 ] || fail "$1: $class memory is still there"
    done
}

keeps_the_model() {
    [ "$(column "$1" device 4)" -ge 3 ] || fail "$1: the leak is not there"
    [ "$(column "$1" mapped 4)" -ge 1 ] || fail "$1: the pool is not there"
    [ "$(column "$1" created 4)" -eq 0 ] || fail "$1: a handle outlives its mapping, which llama.cpp does not do"
}

model=$out/tiny.gguf
run llama-13 "$here/run-llama.mjs" "$build/npm" "$model"
takes_every_road llama-13
keeps_nothing llama-13
run llama-13-leak "$here/run-llama.mjs" --leak "$build/npm" "$model"
keeps_the_model llama-13-leak
run llama-12 "$here/run-llama-12.cjs" "$build/npm" "$model"
takes_every_road llama-12
keeps_nothing llama-12
run llama-12-leak "$here/run-llama-12.cjs" --leak "$build/npm" "$model"
keeps_the_model llama-12-leak

if [ $failed -eq 0 ]; then
    cat "$out/llama-13.traffic"
    echo "PASSED: llama.cpp on the simulated device"
fi
exit $failed
