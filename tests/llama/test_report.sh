#!/bin/bash
# The real, prebuilt llama.cpp under the shim: what it generates is the same, every allocation that the driver saw is in the
# reports by class, nothing twice, and what it does not dispose of is shown where it was allocated.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
. tests/integration/shim.sh
export LLAMA_LOG=disabled
node=${NODE:-$(scripts/find-node)}
npm=$here/npm
model=$here/llama/tiny.gguf

# llama NAME SCRIPT ARGUMENT…: its processes (it tries its binary in a child first) report to files of their own
llama() {
    rm -f "$work"/report* "$work/log"
    run timeout 180 env NXMEM_REPORT="$work/report.%p" NXMEM_REPORT_FORMAT=json SIMCUDA_LOG="$work/log" LD_PRELOAD="$preload" \
        "$node" "$@"
    cat "$work"/report.* >"$work/report" 2>/dev/null
    tests/sim/traffic "$work/log" >"$work/traffic"
}
sum_of() { # class field: over all processes
    class_field "$1" "$2" | awk '{ n += $1 } END { printf "%.0f", n }'
}
column() { awk -v class="$1" -v n="$2" '$1 == class { v = $n } END { printf "%.0f", v }' "$work/traffic"; }
agrees() { # our classes, the driver's, our field, its column
    local ours=0 theirs=0 word
    for word in $1; do ours=$((ours + $(sum_of "$word" "$3"))); done
    for word in $2; do theirs=$((theirs + $(column "$word" "$4"))); done
    [ "$ours" = "$theirs" ] || { echo "$1: $3 is $ours, the driver's log says $2: $theirs" >>"$work/err"; false; }
}
every_allocation_is_there_once() {
    agrees "DEVICE NATIVE" "device async" ever_blocks 2 && agrees "DEVICE NATIVE" "device async" ever_bytes 3 &&
        agrees PINNED pinned ever_blocks 2 && agrees PINNED pinned ever_bytes 3 &&
        agrees MANAGED managed ever_blocks 2 && agrees REGISTERED registered ever_blocks 2 &&
        agrees VMM_RESERVED reserved ever_blocks 2 && agrees VMM_RESERVED reserved ever_bytes 3 &&
        agrees VMM_CREATED created ever_blocks 2 && agrees VMM_CREATED created ever_bytes 3 &&
        agrees VMM_MAPPED mapped ever_blocks 2 && agrees VMM_MAPPED mapped ever_bytes 3
}
what_is_left_agrees() {
    agrees "DEVICE NATIVE" "device async" live_blocks 4 && agrees "DEVICE NATIVE" "device async" live_bytes 5 &&
        agrees PINNED pinned live_bytes 5 && agrees VMM_RESERVED reserved live_bytes 5 && agrees VMM_MAPPED mapped live_bytes 5
}
something_of_each() {
    for class in DEVICE PINNED VMM_RESERVED VMM_CREATED VMM_MAPPED; do
        [ "$(sum_of $class ever_blocks)" -gt 0 ] || return 1
    done
}
tokens() { grep -ac "^llama:.* tokens" "$work/out"; }

for version in 13:run-llama.mjs 12:run-llama-12.cjs; do
    script=tests/llama/${version#*:}
    which=llama_cuda_${version%%:*}
    llama "$script" "$npm" "$model"
    proves "${which}_generates_tokens_under_the_shim" 'exits 0' '[ "$(tokens)" = 1 ]'
    proves "${which}_is_in_the_report_by_class_and_nothing_twice" something_of_each every_allocation_is_there_once \
        what_is_left_agrees
    proves "${which}_leaks_nothing" '! grep -qE "\"leaked\": .\"blocks\": [1-9]" "$work/report"'
    llama "$script" --leak "$npm" "$model"
    proves "${which}_left_undisposed_is_reported_as_it_is" 'exits 0' every_allocation_is_there_once what_is_left_agrees \
        '[ "$(sum_of DEVICE live_blocks)" -ge 3 ]' '[ "$(sum_of VMM_RESERVED live_bytes)" -ge 34359738368 ]'
    proves "${which}_shows_who_allocated" 'grep -q "\"api\": \"cudaMalloc\"" "$work/report"' 'grep -qE "libggml-cuda|index.node" "$work/report"'
done
finish
