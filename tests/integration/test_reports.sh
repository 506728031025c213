#!/bin/bash
# The report counts everything once, whichever way a program reaches the driver.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
. tests/integration/shim.sh
apps=$here/apps

json "$apps/demo"
proves "a_shared_runtime_leaks_two_blocks" 'exits 0' 'amount_is leaked 2 2100224' 'class_is DEVICE ever_blocks 6'
proves "stacks_name_the_program_and_not_the_shim" 'grep -q "\"symbol\": \"forget_cache\"" "$work/report"' \
    '! grep -q "\"module\": .*libnxmem_preload" "$work/report"'
sed -E '/"(pid|program|frames|pc)"/d' "$work/report" >"$work/shared"
json "$apps/demo-static"
sed -E '/"(pid|program|frames|pc)"/d' "$work/report" >"$work/static"
proves "a_static_runtime_gives_the_same_report_but_for_its_names" 'exits 0' 'amount_is leaked 2 2100224' \
    '[ "$(grep -c live_blocks "$work/static")" = "$(grep -c live_blocks "$work/shared")" ]' \
    '[ "$(grep live_blocks "$work/static")" = "$(grep live_blocks "$work/shared")" ]'
proves "a_static_runtime_shows_the_drivers_names" 'grep -q "\"api\": \"cuMemAlloc_v2\"" "$work/report"'

json "$apps/driver-direct"
proves "a_program_that_asks_dlsym_is_seen" 'exits 0' 'amount_is leaked 2 12000'
json "$apps/two-runtimes"
proves "two_runtimes_in_one_process_are_both_seen" 'exits 0' 'amount_is leaked 2 10500'

json "$programs/vmm"
proves "the_programs_own_virtual_memory_is_three_figures" 'class_is VMM_RESERVED ever_blocks 2' \
    'class_is VMM_RESERVED live_blocks 1' 'class_is VMM_CREATED ever_blocks 5' 'class_is VMM_CREATED live_blocks 1' \
    'class_is VMM_MAPPED ever_blocks 4' 'class_is VMM_MAPPED live_blocks 0'
json "$programs/kinds"
proves "each_kind_of_memory_is_a_class" 'class_is PINNED ever_blocks 2' 'class_is REGISTERED ever_blocks 2' \
    'class_is MANAGED ever_blocks 1' 'class_is ARRAY ever_blocks 2' 'class_is NATIVE ever_blocks 1' \
    'amount_is leaked 0 0'
json "$programs/contexts"
proves "what_died_with_its_context_is_reclaimed_by_reset" 'amount_is reclaimed_by_reset 2 5000' 'amount_is leaked 1 2000'
json "$programs/sync"
proves "refused_frees_are_misuse_and_leave_nothing" 'grep -qF "\"misuse\": 4," "$work/report"' 'amount_is leaked 0 0' \
    plugin_was_unloaded
on_host NXMEM_REPORT_FORMAT=json "$programs/async"
proves "what_waits_on_a_lane_is_released_by_the_programs_waits" 'amount_is leaked 0 0' 'amount_is waiting 0 0'

# Stacks by each unwinder: the C library's are the same as ours; without frame pointers there is no chain to follow.
stacks() { grep -E '^ +#' "$work/report"; }
shimmed "$apps/driver-direct"
stacks >"$work/tables"
shimmed NXMEM_UNWINDER=libc "$apps/driver-direct"
proves "the_c_library_walks_the_same_stacks" 'exits 0' '[ "$(wc -l <"$work/tables")" -gt 4 ]' 'stacks | cmp -s - "$work/tables"'
shimmed NXMEM_UNWINDER=frame-pointers "$apps/driver-direct"
proves "without_frame_pointers_there_is_no_chain_to_follow" 'exits 0' 'grep -q "^LEAK: 2 blocks" "$work/report"' '! stacks | cmp -s - "$work/tables"'
shimmed NXMEM_UNWINDER=frame-pointers "$apps/driver-direct-framed"
proves "frame_pointers_are_followed_when_asked_for" 'exits 0' 'stacks | grep -q "#0 main.*driver-direct-framed"' 'stacks | grep -q "#1 .*libc"'

printf '# known\nleak:forget_cache\n' >"$work/known"
json NXMEM_SUPPRESSIONS="$work/known" "$apps/demo"
proves "a_suppressed_leak_is_summed_apart" 'amount_is leaked 1 3072' 'amount_is suppressed 1 2097152'
json NXMEM_SUPPRESSIONS="$work/known" NXMEM_LEAK_EXIT_CODE=9 "$apps/demo-static"
proves "a_leak_that_is_left_sets_the_status" 'exits 9'
printf 'leak:forget_\n' >"$work/known"
json NXMEM_SUPPRESSIONS="$work/known" NXMEM_LEAK_EXIT_CODE=9 "$apps/demo"
proves "suppressed_leaks_leave_the_status" 'exits 0' 'amount_is leaked 0 0' 'amount_is suppressed 2 2100224'

shimmed NXMEM_REPORT=/dev/full "$apps/demo"
proves "a_report_that_cannot_be_written_is_said_so" 'exits 0' says_one_line 'says "could not be written"'
cat >"$work/limited.c" <<'SOURCE'
#include <cuda_runtime_api.h>
#include <sys/resource.h>
int main(void)
{
    void *forgotten;
    struct rlimit none = { 0, 0 };
    return cudaMalloc(&forgotten, 100) != cudaSuccess || setrlimit(RLIMIT_FSIZE, &none) != 0;
}
SOURCE
gcc -isystem "$(scripts/find-cuda headers)" -o "$work/limited" "$work/limited.c" "$here/sim/libcudart.so.13" || exit 1
shimmed "$work/limited"
proves "a_report_at_a_size_limit_leaves_the_status_alone" 'exits 0'
mkfifo "$work/pipe"
shimmed NXMEM_SUPPRESSIONS="$work/pipe" "$apps/demo"
proves "a_pipe_for_suppressions_keeps_nobody_waiting" 'exits 0' says_one_line has_report

# the gate: what the plugin's mapping is at the end is what the report says
shimmed "$programs/threads"
proves "an_idle_plugin_is_unloaded" 'reports unloaded'
shimmed "$apps/demo"
proves "a_plugin_with_live_blocks_stays_mapped_and_the_report_says_why" 'reports "kept mapped: 2 blocks"'
finish
