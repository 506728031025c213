#!/bin/bash
# NXMEM_LANE_LIMIT: what is freed and waits behind work is bounded, by waiting inside the program's own synchronous calls; the program
# sees nothing of it. Where a driver's free waits for work, and where it does not.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
. tests/integration/shim.sh
. tests/cases/same.sh

peak() { sed -n 's/.*"waiting_peak_bytes": \([0-9]*\).*/\1/p' "$work/report"; }
peak_is_at_most() { [ "$(peak)" -gt 0 ] && [ "$(peak)" -le $(($1 << 20)) ]; }
peak_is_over() { [ "$(peak)" -gt $(($1 << 20)) ]; }
limited() { on_host NXMEM_REPORT_FORMAT=json NXMEM_LANE_LIMIT=2 NXMEM_OOM_WAIT_MS=60000 "$@"; }

for waits in 1 0; do
    for how in allocate free wait; do
        export SIMCUDA_FREE_WAITS=$waits
        native "$cases/lane-limit" $how
        keep_native
        limited "$cases/lane-limit" $how
        # A round may begin with two megabytes of the last one.
        proves "calls_that_${how}_keep_what_waits_within_the_limit_where_a_free_waits_$waits" same_output same_status is_silent \
            'peak_is_at_most 10' 'amount_is waiting 0 0'
        limited NXMEM_FREE=deferred "$cases/lane-limit" $how
        proves "with_deferred_frees_too_${how}_$waits" same_output same_status is_silent 'peak_is_at_most 11'
    done
    native "$cases/lane-limit" capture
    keep_native
    limited "$cases/lane-limit" capture
    proves "nothing_waits_for_the_limit_during_a_capture_$waits" same_output same_status is_silent 'peak_is_over 7' \
        'amount_is waiting 0 0'
    native "$cases/lane-limit" endless
    keep_native
    on_host NXMEM_REPORT_FORMAT=json NXMEM_LANE_LIMIT=2 NXMEM_OOM_WAIT_MS=20 "$cases/lane-limit" endless
    proves "work_that_never_ends_holds_no_call_for_ever_$waits" same_output same_status is_silent 'amount_is waiting 8 8388608'
done

unset SIMCUDA_FREE_WAITS
native "$cases/lane-limit" endless
keep_native
on_host NXMEM_OOM_WAIT_MS=60000 "$cases/lane-limit" endless
proves "without_a_limit_no_call_waits" same_output same_status is_silent
native "$cases/lane-limit" allocate
keep_native
json NXMEM_LANE_LIMIT=1 "$cases/lane-limit" allocate
proves "where_the_driver_keeps_the_order_nothing_waits_here" same_output same_status '[ "$(peak)" = 0 ]'
on_host "$cases/lane-limit" endless
proves "the_report_says_what_waits_and_the_most_that_did" 'reports "^waiting +8 blocks, 8(.00)? MiB"' 'reports "^waiting at most +8(.00)? MiB at a time"'
on_host NXMEM_JOURNAL="$work/journal" "$cases/lane-limit" endless
run "$here/bin/nxmem-report" "$work/journal"
proves "so_does_a_journal" 'exits 0' 'prints "waiting at most     8"'
run "$here/bin/nxrun" --plugin host --lane-limit 2 /bin/true
proves "nxrun_has_an_option_for_it" 'exits 0'
finish
