#!/bin/bash
# The wider surface: what pointers and pools answer, old forms, green contexts, memory of graphs, of other interfaces and of peers.
# Each program's transcript is the same natively and under the shim, with each plugin.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
. tests/integration/shim.sh
. tests/cases/same.sh

same what_a_pointer_is "$cases/what-a-pointer-is"
same pool_figures "$cases/pool-figures"
leaks_are pool_figures 0 0
same pool_figures_odd "$cases/pool-figures-odd"
same batches_and_trims "$cases/batches-and-trims"
leaks_are batches_and_trims 0 0
same old_forms "$cases/old-forms"
for mode in direct host; do
    report_of old_forms $mode
    proves "old_forms_count_as_todays_with_$mode" 'class_is REGISTERED ever_blocks 2' 'class_is REGISTERED live_bytes 4096' \
        'amount_is reclaimed_by_reset 1 4000' 'amount_is leaked 0 0' 'class_is DEVICE ever_blocks 5' 'amount_is waiting 0 0'
done
for holder in alone held; do
    same "green_contexts_$holder" "$cases/green-contexts" $holder
done
for mode in direct host; do
    report_of green_contexts_held $mode
    proves "memory_outlives_a_green_context_with_$mode" 'amount_is waiting 0 0' 'amount_is reclaimed_by_reset 0 0' 'amount_is leaked 1 4000'
    report_of green_contexts_alone $mode
    proves "a_green_contexts_end_may_be_its_primarys_with_$mode" 'amount_is reclaimed_by_reset 1 2000' 'amount_is leaked 1 4000'
done
same external_memory "$cases/external-memory"
report_of external_memory direct
proves "mappings_of_other_interfaces_are_imports" 'amount_is leaked 0 0' 'amount_is imports_left_open 1 0' \
    'class_is IMPORTED live_bytes 524288' 'amount_is unknown_frees 0 0' 'misuses_are 1'
same virtual_calls "$cases/virtual-calls"
leaks_are virtual_calls 0 0
same graph_memory_relaunched "$cases/graph-memory-relaunched"
for mode in direct host; do
    report_of graph_memory_relaunched $mode
    proves "memory_that_a_launch_brings_back_is_no_unknown_one_with_$mode" 'amount_is leaked 0 0' 'amount_is unknown_frees 0 0' \
        'class_is GRAPH live_blocks 0'
done
same graph_nodes "$cases/graph-nodes"
report_of graph_nodes direct
proves "memory_of_graph_nodes_is_the_graphs" 'amount_is leaked 0 0' 'class_is GRAPH ever_bytes 10000' 'class_is GRAPH live_bytes 4000' \
    'amount_is unknown_frees 0 0' 'amount_is freed_out_of_sight 0 0'
same pool_by_location "$cases/pool-by-location"
report_of pool_by_location direct
proves "a_pool_chosen_by_location_is_the_programs" 'class_is POOL live_bytes 1000' 'class_is DEVICE live_bytes 2000'
native env OLD_FORM=1 "$cases/imported-twice"
keep_native
rm -f "$work"/report*
run timeout 300 env OLD_FORM=1 NXMEM_REPORT="$work/report.%p" NXMEM_REPORT_FORMAT=json LD_PRELOAD="$preload" "$cases/imported-twice"
proves "imports_by_the_old_form_are_the_same" same_output same_status
grep -lE '"IMPORTED": .*"ever_blocks": 1' "$work"/report.* | head -n 1 | xargs -I{} cp {} "$work/report" # the importer's
proves "imports_by_the_old_form_are_mappings" 'class_is IMPORTED live_blocks 1' 'amount_is leaked 0 0'
same peer_access SIMCUDA_DEVICES=2 "$cases/peer-access"
same freed_and_asked "$cases/freed-and-asked"
same shared_with_others "$cases/shared-with-others"
for mode in direct host; do
    in_mode $mode "$cases/shared-with-others"
    cp "$work/err" "$work/shared.$mode"
done
proves "the_drivers_own_blocks_are_shared_as_natively" 'cmp -s "$work/native.err" "$work/shared.direct"'
proves "what_a_mechanism_does_not_promise_is_refused_with_a_hint" \
    'grep -q "^a block: ipc 0 rdma 0 export 1 dma-buf 1" "$work/shared.host"' \
    '[ "$(grep -c "set NXMEM_PLUGIN=direct" "$work/shared.host")" = 2 ]'
finish
