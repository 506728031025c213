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
report_of graph_memory_again direct
proves "graph_memory_is_no_leak_and_not_out_of_sight" 'amount_is leaked 0 0' 'amount_is freed_out_of_sight 0 0'
ended=0
for i in $(seq 30); do
    on_host "$cases/exit-in-signal"
    [ "$status" = 4 ] && ended=$((ended + 1))
done
proves "a_signal_handler_that_exits_ends_the_process" '[ $ended = 30 ]'
finish
