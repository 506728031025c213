#!/bin/bash
# Cases that broke other tools: each program's transcript is the same natively and under the shim, with each plugin.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
. tests/integration/shim.sh
. tests/cases/same.sh

same three_and_two "$cases/three-and-two"
leaks_are three_and_two 1 3000
same three_and_two_static "$cases/three-and-two-static"
leaks_are three_and_two_static 1 3000
report_of three_and_two direct
proves "a_runtimes_allocation_is_counted_once" 'class_is DEVICE ever_blocks 3'
same zero_sizes "$cases/zero-sizes"
report_of zero_sizes direct
proves "nothing_is_recorded_of_zero_sizes" '[ ! -s "$work/report" ]'
same null_frees "$cases/null-frees"
report_of null_frees direct
proves "frees_of_nothing_are_no_misuse" '[ ! -s "$work/report" ]'
same mixed_pairs "$cases/mixed-pairs"
leaks_are mixed_pairs 0 0
for mode in direct host; do
    report_of mixed_pairs $mode
    proves "each_of_eight_hundred_pairs_is_released_once_with_$mode" 'class_is DEVICE ever_blocks 800' \
        'amount_is waiting 0 0' plugin_was_unloaded 'misuses_are 0'
done
same stream_handle_again "$cases/stream-handle-again"
leaks_are stream_handle_again 1 777
same host_functions "$cases/host-functions"
leaks_are host_functions 0 0
same free_waits_for_callback "$cases/free-waits-for-callback"
same endless_kernel "$cases/endless-kernel"
report_of endless_kernel host
proves "what_waits_for_an_endless_kernel_is_shown_as_waiting" 'amount_is waiting 1 5000' 'amount_is leaked 1 4096'
for call in synchronize info allocate unknown ordered; do
    same "endless_after_free_$call" "$cases/endless-after-free" $call
done
same free_elsewhere SIMCUDA_DEVICES=2 "$cases/free-elsewhere"
leaks_are free_elsewhere 0 0
for visible in 0,1 1,0 1; do
    same "two_devices_$visible" SIMCUDA_DEVICES=2 CUDA_VISIBLE_DEVICES=$visible "$cases/two-devices"
    leaks_are "two_devices_$visible" 0 0
    same "free_elsewhere_$visible" SIMCUDA_DEVICES=2 CUDA_VISIBLE_DEVICES=$visible "$cases/free-elsewhere"
done
same register_again "$cases/register-again"
same capture_modes "$cases/capture-modes"
leaks_are capture_modes 0 0
for mode in direct host; do
    report_of capture_modes $mode
    proves "what_a_capture_does_not_forbid_is_served_by_the_plugin_with_$mode" 'class_is NATIVE ever_blocks 1' \
        'class_is DEVICE ever_blocks 20' # by its own relaxed capture a thread is forbidden nothing, but who knows
done
same capture_and_no_memory SIMCUDA_MEMORY=64M NXMEM_HOST_LIMIT=67108864 "$cases/capture-and-no-memory"
same expandable_segments "$cases/expandable-segments"
report_of expandable_segments direct
proves "handle_mapping_and_reservation_are_left_and_told_apart" 'class_is VMM_RESERVED live_bytes 67108864' \
    'class_is VMM_CREATED live_bytes 6291456' 'class_is VMM_MAPPED live_bytes 2097152' 'class_is VMM_MAPPED ever_bytes 10485760'
same undone_twice "$cases/undone-twice"
report_of undone_twice direct
proves "what_was_undone_twice_is_gone_once" 'class_is VMM_RESERVED live_bytes 0' 'class_is VMM_CREATED live_bytes 0' \
    'class_is VMM_MAPPED live_bytes 0' 'class_is VMM_CREATED ever_blocks 2'
same created_where "$cases/created-where"
same null_outputs "$cases/null-outputs"
same shadow "$cases/shadow"
leaks_are shadow "$(sed -n 's/^blocks = //p' "$work/native.out")" "$(sed -n 's/^bytes = //p' "$work/native.out")"
same last_error "$cases/last-error"
same room_after_waiting SIMCUDA_MEMORY=64M NXMEM_HOST_LIMIT=67108864 "$cases/room-after-waiting"
same too_much "$cases/too-much"
report_of too_much host
proves "what_nobody_can_serve_leaves_nothing" '[ ! -s "$work/report" ] || amount_is leaked 0 0'
same odd_sizes "$cases/odd-sizes"
leaks_are odd_sizes 1 300
same not_allocated_here "$cases/not-allocated-here"
same static_objects "$cases/static-objects"
report_of static_objects direct
proves "destructors_frees_are_counted" 'amount_is leaked 0 0'
same static_objects_torn_down TORN_DOWN=1 "$cases/static-objects"
same exit_while_freeing "$cases/exit-while-freeing"
same first_calls "$cases/first-calls"
for driver in . 11.4 12.4 99.0; do
    same "by_name_and_version_$driver" LD_LIBRARY_PATH="$here/sim/$driver" "$cases/by-name-and-version"
    leaks_are "by_name_and_version_$driver" 0 0
done
same other_kinds "$cases/other-kinds"
report_of other_kinds direct
plane=$(sed -n 's/^pitch \* 10 = //p' "$work/native.out")
cube=$(sed -n 's/^cube.*= //p' "$work/native.out")
proves "a_pitched_block_is_pitch_times_height" "class_is NATIVE live_bytes $((plane + cube))"
proves "each_kind_has_its_own_line" 'class_is ARRAY live_blocks 2' 'class_is MANAGED live_bytes 5000' 'class_is PINNED live_bytes 6000'
same fork_storm "$cases/fork-storm"
report_of fork_storm direct
proves "children_left_the_parents_report_alone" 'amount_is leaked 1 5000'
same closed_library SHIM="$shim" PLUGIN="$here/lib/nxmem/direct.so" "$cases/closed-library" "$cases/libleaky.so"
report_of closed_library direct
proves "a_closed_librarys_leak_is_one_place_that_names_it" 'amount_is leaked 10 10000' \
    'grep -q "\"module\": \".*libleaky.so\"" "$work/report"' 'grep -q leak_of_a_library "$work/report"' \
    '[ "$(grep -c "\"blocks\": 10" "$work/report")" -ge 1 ]'

# Two processes: each has a transcript of its own, in one output.
for close in "" 1; do
    native env CLOSE_ALL=$close "$cases/imported-twice"
    keep_native
    rm -f "$work"/report*
    run timeout 300 env CLOSE_ALL=$close NXMEM_REPORT="$work/report.%p" NXMEM_REPORT_FORMAT=json LD_PRELOAD="$preload" "$cases/imported-twice"
    proves "imports${close:+_closed_once_more}_are_the_same" same_output same_status
    grep -lE '"IMPORTED": .*"ever_blocks": 1' "$work"/report.* | head -n 1 | xargs -I{} cp {} "$work/report" # the importer's
    proves "imports${close:+_closed_once_more}_are_mappings" "class_is IMPORTED live_blocks $([ "$close" ] && echo 0 || echo 1)" \
        'amount_is leaked 0 0'
done
finish
