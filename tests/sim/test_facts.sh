#!/bin/bash
# What CUDA leaves open: the program that asks a real device (tests/gpu/facts) reads from the simulated one exactly what its
# switches say, each switch in each position.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
facts=$build/tests/gpu/facts/facts
case $build in /*) ;; *) build=$PWD/$build ;; esac
export LD_LIBRARY_PATH=$build/sim ASAN_OPTIONS=detect_leaks=0

answers() { grep -qxF -- "$1" "$work/out"; }

for fact in $(sed -n 's/^FACT(\([a-z_]*\),.*/\1/p' tests/sim/driver/facts.def); do
    variable=SIMCUDA_$(echo "$fact" | tr a-z A-Z)
    run env "$variable=0" "$facts" "$fact"
    cp "$work/out" "$work/off"
    run env "$variable=1" "$facts" "$fact"
    cat "$work/off" >>"$work/out"
    proves "${fact}_is_what_its_switch_says" "exits 0" "answers '$fact: 0'" "answers '$fact: 1'"
    proves "${fact}_is_written_up" "grep -q '^| .$fact. |' docs/cuda-facts.md"
done

run env SIMCUDA_RUNTIME_RELEASES=1 "$facts" runtime_releases
proves the_runtime_releases_its_context_where_it_is_told_to "answers 'runtime_releases: 1'"
run env SIMCUDA_RUNTIME_RELEASES=0 "$facts" runtime_releases
proves the_runtime_keeps_its_context_where_it_is_told_to "answers 'runtime_releases: 0'"

run env SIMCUDA_PROFILE=12.4 "$facts" free_host_null
proves freeing_no_host_memory_is_an_error_to_an_older_driver "answers 'free_host_null: 1'"
run "$facts" free_host_null
proves freeing_no_host_memory_is_nothing_to_a_newer_driver "answers 'free_host_null: 0'"

run env SIMCUDA_CONTEXT_OVERHEAD=300M SIMCUDA_MODULE_MEMORY=8M "$facts" context_overhead module_memory
proves memory_info_counts_contexts_and_modules "answers 'context_overhead: 300'" "answers 'module_memory: 8'"

# The documented rule, computed: a call that is potentially unsafe is refused by one's own capture unless that is relaxed,
# and by another thread's if that is global; what asks about a whole context always conflicts.
rule() {
    awk 'BEGIN {
        n = split("alloc free host_alloc async_alloc event_query event_wait stream_query stream_wait legacy_query context_wait context_record", calls)
        split("global thread relaxed", modes); split("same other", who)
        for (i = 1; i <= n; i++) for (m = 1; m <= 3; m++) for (w = 1; w <= 2; w++) {
            refused = calls[i] ~ /^context/ || (w == 1 ? m != 3 : m == 1)
            if (calls[i] == "async_alloc") refused = 0
            print "capture." calls[i] "." modes[m] "." who[w] ": " (refused ? "900 broken" : "0 intact")
        }
    }'
}
run "$facts" capture
grep '^capture' "$work/out" >"$work/seen"
rule >"$work/err"
proves captures_forbid_by_mode_and_thread_what_is_documented "cmp -s '$work/seen' '$work/err'"
finish
