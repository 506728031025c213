#!/bin/bash
# The plugin that maps: each block is memory of its own in a range of its own, which no program notices. What pointers answer, who
# reaches memory, work in flight, contexts, captures and errors are the same as natively.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
. tests/integration/shim.sh
. tests/cases/same.sh
modes="vmm"

same three_and_two "$cases/three-and-two"
report_of three_and_two vmm
proves "a_block_takes_whole_pages_and_is_reported_as_it_was_asked_for" 'amount_is leaked 1 3000' 'class_is DEVICE ever_blocks 3' \
    'grep -q "\"mapped_bytes\": 2097152" "$work/report"' 'class_is VMM_CREATED ever_blocks 0' 'class_is VMM_RESERVED ever_blocks 0'
same three_and_two_static "$cases/three-and-two-static"
for name in mixed-pairs stream-handle-again host-functions free-waits-for-callback endless-kernel zero-sizes null-frees odd-sizes \
    what-a-pointer-is old-forms capture-modes capture-implicit capture-stream-gone deferred-during-capture graph-nodes \
    ended-while-capturing freed-then-context-gone ordered-and-context-gone runtime-reset-twice last-error undone-twice \
    expandable-segments static-objects exit-while-freeing refused-frees late-double-free shadow batches-and-trims virtual-calls \
    graph-memory-relaunched freed-and-asked pool-figures-odd late-free-stream-gone freed-by-two middle-frees; do
    same "${name//-/_}" "$cases/$name"
done
report_of middle_frees vmm
proves "the_middle_of_a_block_that_is_a_mapping_is_told_as_that" 'misuses_are 5' \
    '[ "$(grep -c "\"what\": \"inside a block\"" "$work/report")" = 5 ]'
for case_program in three-and-two mixed-pairs shadow; do
    for seed in 1 2 3; do
        same "${case_program//-/_}_with_seed_$seed" SIMCUDA_SEED=$seed "$cases/$case_program"
        proves "${case_program//-/_}_with_seed_${seed}_is_blameless" '! grep -q "^simcuda:" "$work/err"'
    done
done
# Of ranges, handles and mappings nothing is left, also of an allocation that failed halfway.
leaves_nothing() { ! grep "^simcuda: leak" "$work/err" | grep -qv "stream handle\|event handle"; } # the program's, and the lanes'
succeeded() { grep -c "^$1 result=0" "$work/log"; }
returns_every_range() { [ "$(succeeded cuMemAddressReserve)" -gt 0 ] && [ "$(succeeded cuMemAddressReserve)" = "$(succeeded cuMemAddressFree)" ]; }
for case_program in mixed-pairs too-much; do
    native env SIMCUDA_LEAKS=1 "$cases/$case_program"
    keep_native
    shimmed NXMEM_PLUGIN=vmm SIMCUDA_LEAKS=1 "$cases/$case_program"
    proves "${case_program//-/_}_leaves_nothing_at_the_driver" same_output leaves_nothing
done
for call in cuMemAddressReserve cuMemCreate cuMemMap cuMemSetAccess; do
    rm -f "$work/log"
    shimmed NXMEM_PLUGIN=vmm SIMCUDA_LEAKS=1 SIMCUDA_LOG="$work/log" SIMCUDA_FAIL=$call:2:2 "$cases/mixed-pairs"
    proves "a_refused_${call}_is_out_of_memory_and_leaves_nothing" 'grep -q " -> 2$\|= [1-9]" "$work/out"' leaves_nothing returns_every_range
done
same too_much "$cases/too-much"
same free_elsewhere SIMCUDA_DEVICES=2 "$cases/free-elsewhere"
same peer_access SIMCUDA_DEVICES=2 "$cases/peer-access"
for driver in . 11.4 12.4 99.0; do
    same "by_name_and_version_$driver" LD_LIBRARY_PATH="$here/sim/$driver" "$cases/by-name-and-version"
done
modes="direct vmm"
same peer_kernels SIMCUDA_DEVICES=2 SIMCUDA_QUIET=1 "$cases/peer-kernels"
proves "both_ways_were_seen" '[ "$(grep -c "reached$" "$work/native.out")" = 2 ]' '[ "$(grep -c "out of reach$" "$work/native.out")" = 3 ]'
finish
