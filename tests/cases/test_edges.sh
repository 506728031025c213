#!/bin/bash
# Edges that the design names and no case does: captures, contexts, pools and exits in unusual orders.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
. tests/integration/shim.sh
. tests/cases/same.sh

modes="direct deferred host host-deferred"

same capture_stream_gone "$cases/capture-stream-gone"
report_of capture_stream_gone direct
proves "memory_is_the_plugins_again_after_a_capturing_stream_is_gone" 'class_is DEVICE ever_blocks 5'
for going in stream context release; do
    same "capture_before_use_$going" "$cases/capture-before-use" $going
    report_of "capture_before_use_$going" direct
    proves "a_capture_that_went_with_its_${going}_before_first_use_is_over" 'class_is DEVICE ever_blocks 1'
done
same primary_again "$cases/primary-again"
same last_release "$cases/last-release"
leaks_are last_release 0 0
for mode in direct deferred host host-deferred; do
    report_of last_release $mode
    proves "what_is_live_at_the_last_release_is_reclaimed_with_$mode" 'amount_is reclaimed_by_reset 2 10000' 'amount_is waiting 0 0' \
        'amount_is freed_out_of_sight 0 0' plugin_was_unloaded
done
for end in destroy reset; do
    same "ended_while_capturing_$end" "$cases/ended-while-capturing" $end
    same "ended_while_another_captures_$end" "$cases/ended-while-capturing" $end elsewhere
done
for call in info synchronize allocate; do
    same "other_context_busy_$call" "$cases/other-context-busy" $call
done
for driver in . 12.4; do
    same "freed_is_room_$driver" LD_LIBRARY_PATH="$here/sim/$driver:$LD_LIBRARY_PATH" SIMCUDA_MEMORY=64M "$cases/freed-is-room"
done
same reset_while_waiting SIMCUDA_MEMORY=64M "$cases/reset-while-waiting"
for what in contexts captures; do
    same "fork_and_end_$what" "$cases/fork-and-end" $what
done
same capture_by_two_names "$cases/capture-by-two-names"
report_of capture_by_two_names direct
proves "memory_is_the_plugins_again_after_a_capture_ended_under_another_name" 'class_is DEVICE ever_blocks 1'
for driver in . 12.4; do
    same "capture_begins_during_free_$driver" LD_LIBRARY_PATH="$here/sim/$driver" "$cases/capture-begins-during-free"
done
same device_synchronize "$cases/device-synchronize"
report_of device_synchronize host
proves "a_device_wide_wait_of_the_program_is_a_moment_to_release" 'amount_is waiting 0 0' plugin_was_unloaded
same torn_down_driver "$cases/torn-down-driver"
same capture_implicit "$cases/capture-implicit"
same freed_then_context_gone "$cases/freed-then-context-gone"
for mode in $modes; do
    report_of freed_then_context_gone $mode
    proves "a_block_freed_in_time_is_not_reclaimed_by_reset_with_$mode" 'amount_is reclaimed_by_reset 1 2000'
done
# B44: context, code and local memory are nobody's blocks: what the driver says, what is recorded, and what lies beside.
beside=(SIMCUDA_CONTEXT_OVERHEAD=300M SIMCUDA_MODULE_MEMORY=8M SIMCUDA_LOCAL_MEMORY=64M)
memory_is() { # MiB used, recorded, unexplained
    grep -qF "\"device_memory\": [{\"device\": 0, \"used\": $(($1 << 20)), \"recorded\": $(($2 << 20)), \"unexplained\": $(($3 << 20))}]" "$work/report"
}
all_modes=$modes modes="direct deferred" # those whose memory is the driver's
same memory_beside "${beside[@]}" "$cases/memory-beside"
modes=$all_modes
for mode in direct deferred; do
    report_of memory_beside $mode
    proves "what_nobody_allocated_is_told_apart_with_$mode" 'memory_is 404 32 372'
done
shimmed "${beside[@]}" "$cases/memory-beside"
proves "what_nobody_allocated_is_a_line_of_the_text" \
    'reports "^device memory +404 MiB of device 0 in use when the driver was last asked: 32 MiB in blocks, 372 MiB beside them$"'
same unseen_free LD_LIBRARY_PATH="$here/sim/99.0" "$cases/unseen-free"
same many_captures "$cases/many-captures"
same deferred_during_capture "$cases/deferred-during-capture"
same events_only SIMCUDA_MEMORY=64M NXMEM_HOST_LIMIT=67108864 "$cases/events-only"
same ordered_and_context_gone "$cases/ordered-and-context-gone"
for mode in direct host; do
    report_of ordered_and_context_gone $mode
    proves "ordered_memory_goes_back_although_its_context_is_gone_with_$mode" 'amount_is leaked 0 0' 'amount_is waiting 0 0' \
        'amount_is reclaimed_by_reset 0 0' plugin_was_unloaded
done
same runtime_reset_twice "$cases/runtime-reset-twice"
report_of runtime_reset_twice direct
proves "each_runtime_reset_reclaims_its_block" 'amount_is reclaimed_by_reset 2 2000' 'amount_is leaked 0 0'
same pool_gone "$cases/pool-gone"
report_of pool_gone direct
proves "the_default_pool_is_the_plugins_again" 'class_is DEVICE ever_blocks 1'
same late_double_free "$cases/late-double-free"
same graph_memory_again "$cases/graph-memory-again"
same destroyed_under_threads "$cases/destroyed-under-threads"
report_of graph_memory_again direct
proves "graph_memory_is_no_leak_and_not_out_of_sight" 'amount_is leaked 0 0' 'amount_is freed_out_of_sight 0 0'
ended=0
for i in $(seq 30); do
    on_host "$cases/exit-in-signal"
    [ "$status" = 4 ] && ended=$((ended + 1))
done
proves "a_signal_handler_that_exits_ends_the_process" '[ $ended = 30 ]'

# misuse_is WHAT COUNT,COUNT… FUNCTION ALLOCATED-IN ("": not known)
misuse_is() {
    python3 - "$work/report" "$@" <<'PYTHON'
import json, sys
report, what, counts, function, allocated = sys.argv[1:]
def names(frames):
    return [frame["symbol"] for frame in frames]
found = [m for m in json.load(open(report))["misuses"] if m["what"] == what and function in names(m["frames"])]
assert ",".join(str(m["count"]) for m in found) == counts
for m in found:
    assert (allocated in names(m["allocated"])) if allocated else (m["api"] is None and not m["allocated"])
PYTHON
}
same middle_frees "$cases/middle-frees"
for mode in direct deferred host host-deferred; do
    report_of middle_frees $mode
    proves "the_middle_of_a_block_is_told_as_that_for_each_kind_with_$mode" 'misuses_are 5' 'amount_is leaked 0 0' \
        'misuse_is "inside a block" 1,1 frees_a_middle allocates_it' \
        'misuse_is "inside a block" 1 frees_a_middle_of_the_hosts allocates_the_hosts' \
        '[ "$(grep -c "\"what\": \"inside a block\"" "$work/report")" = 5 ]'
done
same freed_by_two "$cases/freed-by-two"
leaks_are freed_by_two 0 0
same late_free_stream_gone "$cases/late-free-stream-gone"
leaks_are late_free_stream_gone 0 0
same left_by_main "$cases/left-by-main"
for mode in direct host; do
    report_of left_by_main $mode
    proves "a_program_that_its_main_thread_has_left_keeps_its_name_with_$mode" 'amount_is leaked 1 3000' \
        'grep -q "\"program\": \".*/left-by-main\"" "$work/report"' 'grep -q "\"symbol\": \"leaks_after_main\"" "$work/report"'
done
same refused_frees "$cases/refused-frees"
for mode in direct deferred host host-deferred; do
    report_of refused_frees $mode
    proves "each_refused_free_is_told_with_its_place_and_its_blocks_with_$mode" 'misuses_are 8' \
        'misuse_is "freed twice" 3 frees_it_again allocates_it' \
        'misuse_is "freed by a call for another kind of memory" 1,1 frees_it_as_host_memory allocates_it' \
        'misuse_is "freed by a call for another kind of memory" 1 frees_host_memory allocates_host_memory' \
        'misuse_is "inside a block" 1 frees_the_middle allocates_it' \
        'misuse_is "not allocated" 1 unregisters_nothing ""'
done
in_mode direct env NXMEM_FREE_STACKS=1 "$cases/refused-frees"
proves "the_first_free_is_told_where_that_was_asked_for" \
    '[ "$(tr -d "\n" <"$work/report" | grep -o "\"freed\": \[[^]]*frees_it\"" | wc -l)" = 1 ]'
finish
