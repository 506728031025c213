#!/bin/bash
# The real, prebuilt llama.cpp and whisper.cpp under the shim: what it generates is the same, every allocation that the driver saw is in the
# reports by class, nothing twice, and what it does not dispose of is shown where it was allocated. Call by call, the driver's log is
# what it is natively; a pinned allocation that is refused does no more harm than natively, and one of device memory is told alike.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
. tests/integration/shim.sh
export LLAMA_LOG=disabled
node=${NODE:-$(scripts/find-node)}
npm=$here/npm

# llama NAME SCRIPT ARGUMENT…: its processes (it tries its binary in a child first) report to files of their own
llama() {
    rm -f "$work"/report* "$work/log"
    run timeout 300 env NXMEM_REPORT="$work/report.%p" NXMEM_REPORT_FORMAT=json SIMCUDA_LOG="$work/log" "${settings[@]}" LD_PRELOAD="$preload" \
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
something_of_each() { # class…
    for class; do
        [ "$(sum_of $class ever_blocks)" -gt 0 ] || return 1
    done
}
done_once() { [ "$(grep -acE "^llama:.* tokens|^whisper:.* segments" "$work/out")" = 1 ]; }

# The driver's calls with addresses and handles numbered as they are made: the same in any process.
calls() { # log
    awk '{ made = $1 ~ /Alloc|Create|Reserve/ && $2 == "result=0"
           for (i = 2; i <= NF; i++)
               if (match($i, /0x[0-9a-f]+$/)) {
                   value = substr($i, RSTART)
                   if (!(value in number) || (made && $i ~ /^address=/)) number[value] = ++last
                   $i = substr($i, 1, RSTART - 1) number[value]
               }
           print }' "$1"
}
same_calls() {
    calls "$work/native.log" >"$work/native.calls"
    calls "$work/log" >"$work/calls"
    [ -s "$work/calls" ] && diff "$work/native.calls" "$work/calls" >"$work/err"
}
# natively [VARIABLE=VALUE]… SCRIPT ARGUMENT…; what it says is kept without what no two runs say alike
natively() {
    rm -f "$work/native.log"
    run timeout 300 env SIMCUDA_LOG="$work/native.log" "${settings[@]}" "$node" "$@"
    keep_native
    told "$work/out" >"$work/native.told.out"
    told "$work/err" >"$work/native.told.err"
}
# What it tells of memory; times, addresses and the tokens of a model without sense are others every time.
told() {
    grep -ahiE "alloc|out of memory|failed|error|tokens|segments" "$@" | grep -avE "time|0x[0-9a-f]{6}|perf" |
        sed -E 's/[0-9.]+ ms//g; s/^(llama:.*tokens).*/\1/'
}
# Who dies of a signal may take along the last line, which a thread of its own was about to write.
tells_the_same() {
    local stream mine lines said=0
    told "$work/err" >"$work/told.err"
    told "$work/out" >"$work/told.out"
    for stream in out err; do
        lines=$(wc -l <"$work/native.told.$stream") mine=$(wc -l <"$work/told.$stream")
        if [ "$status" -gt 128 ] && [ $((mine - lines)) -ge -1 ] && [ $((mine - lines)) -le 1 ]; then
            [ "$mine" -ge "$lines" ] || lines=$mine
            sed -i "$((lines + 1)),\$d" "$work/told.$stream" "$work/native.told.$stream"
        fi
        diff "$work/native.told.$stream" "$work/told.$stream" >"$work/differs" || { mv "$work/differs" "$work/err"; return 1; }
        said=$((said + lines))
    done
    [ $said -gt 0 ]
}
refused() { grep -aqE "^$1 result=2 " "$work/log" && grep -aqE "^$1 result=2 " "$work/native.log"; }

for program in llama_cuda_13:run-llama.mjs:tiny.gguf:PINNED llama_cuda_12:run-llama-12.cjs:tiny.gguf:PINNED whisper:run-whisper.cjs:tiny.whisper:; do
    IFS=: read -r which script model pinned <<<"$program"
    script=tests/llama/$script model=$here/llama/$model settings=()
    natively "$script" "$npm" "$model"
    llama "$script" "$npm" "$model"
    proves "${which}_does_its_work_under_the_shim" 'exits 0' done_once
    proves "${which}_is_in_the_report_by_class_and_nothing_twice" "something_of_each DEVICE $pinned VMM_RESERVED VMM_CREATED VMM_MAPPED" \
        every_allocation_is_there_once what_is_left_agrees
    proves "each_call_is_made_as_natively_by_${which}" same_calls
    proves "${which}_leaks_nothing" '! grep -qE "\"leaked\": .\"blocks\": [1-9]" "$work/report"'
    llama "$script" --leak "$npm" "$model"
    proves "${which}_left_undisposed_is_reported_as_it_is" 'exits 0' every_allocation_is_there_once what_is_left_agrees \
        '[ "$(sum_of DEVICE live_blocks)" -ge 3 ]' '[ "$(sum_of VMM_RESERVED live_bytes)" -ge 34359738368 ]'
    proves "${which}_shows_who_allocated" 'grep -q "\"api\": \"cudaMalloc\"" "$work/report"' 'grep -qE "libggml-cuda|index.node" "$work/report"'
    for call in cuMemAlloc_v2 ${pinned:+cuMemHostAlloc}; do
        settings=("SIMCUDA_FAIL=$call:1:2")
        natively "$script" "$npm" "$model"
        llama "$script" "$npm" "$model"
        proves "a_refused_call_is_taken_as_natively_by_${which}_$call" "refused $call" same_status tells_the_same same_calls
        # What ends by a signal leaves no report.
        [ "$status" -ge 128 ] || proves "${which}_is_in_the_report_after_a_refused_$call" every_allocation_is_there_once what_is_left_agrees
        [ $call = cuMemAlloc_v2 ] || proves "${which}_works_without_its_pinned_memory" 'exits 0' done_once
    done
done
finish
