#!/bin/bash
# However a process ends, the report appears once, from the process that owns it, and says what is left; the program's own
# status and output are untouched.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
. tests/integration/shim.sh
program=$programs/ways-out

gate_was_not_asked() { grep -qF '"asked": false' "$work/report"; }
one_report() { [ "$(number_of_reports)" = 1 ]; }

# Two blocks, a megabyte and a page, are live when the program ends by this way.
for way in return exit _exit quick_exit thread fork raw-clone vfork; do
    native "$program" $way
    keep_native
    rm -f "$work"/report*
    run timeout 300 env NXMEM_REPORT="$work/report.%p" NXMEM_REPORT_FORMAT=json LD_PRELOAD="$preload" "$program" $way
    proves "${way}_is_the_same" same_output same_status same_errors
    mv "$work"/report.* "$work/report" 2>/dev/null
    proves "${way}_reports_once_what_is_left" one_report 'amount_is leaked 2 1052672'
    # _exit may come from a signal handler inside malloc: the plugin is not entered any more.
    case $way in _exit) gate=gate_was_not_asked ;; *) gate='gate_is host' ;; esac
    proves "${way}_asks_the_gate_or_not" "$gate"
done

for way in early-atexit late-atexit; do
    native "$program" $way
    keep_native
    json "$program" $way
    proves "${way}_frees_as_it_does_natively" same_output same_status same_errors
    proves "${way}_leaves_one_leak" 'amount_is leaked 1 1048576'
done
# A handler registered before the plugin was loaded runs after the door was closed.
json "$program" early-atexit
proves "a_free_after_the_door_is_closed_is_counted" 'amount_is freed_during_exit 1 4096'

native env FREE_IN_DESTRUCTOR=1 "$program"
keep_native
json FREE_IN_DESTRUCTOR=1 "$program"
proves "a_destructor_that_frees_is_the_same" same_output same_status same_errors
proves "a_destructor_that_frees_is_counted" 'amount_is freed_during_exit 1 4096' 'amount_is leaked 1 1048576'

json "$program" early-fork
proves "a_child_that_is_the_first_user_reports_for_itself" '[ "$status" = 0 ]' 'amount_is leaked 2 1052672'

shimmed "$program" abort
proves "an_abort_ends_as_an_abort" '[ "$status" = 134 ]'
shimmed "$program" exec
proves "an_exec_replaces_the_process_silently" 'exits 0' is_silent has_no_report

shimmed NXMEM_LEAK_EXIT_CODE=42 "$program" return
proves "a_leak_sets_the_status_asked_for" 'exits 42' has_report
shimmed NXMEM_LEAK_EXIT_CODE=42 "$program" exit
proves "a_status_of_the_programs_own_is_left" 'exits 3'
shimmed NXMEM_LEAK_EXIT_CODE=42 "$program" _exit
proves "a_status_given_to__exit_is_left" 'exits 4'
shimmed NXMEM_LEAK_EXIT_CODE=42 "$programs/threads"
proves "no_leak_leaves_the_status" 'exits 0'

shimmed "$programs/nothing"
proves "a_program_that_never_allocated_prints_nothing" 'exits 0' is_silent has_no_report
shimmed NXMEM_REPORT=none "$program"
run timeout 300 env NXMEM_REPORT=none LD_PRELOAD="$preload" "$program"
proves "a_report_that_nobody_wants_is_not_written" 'exits 0' is_silent
run timeout 300 env NXMEM_REPORT=/nonexistent/folder/report LD_PRELOAD="$preload" "$program"
proves "a_report_that_cannot_be_written_goes_to_standard_error" 'exits 0' 'says LEAK'

# A report that goes where the program writes is appended; a pipe that nobody reads does not hold the process up.
sh -c 'echo before >&2; exec env NXMEM_REPORT=/dev/stderr LD_PRELOAD="$1" "$2"' sh "$preload" "$program" >"$work/out" 2>"$work/err"
proves "what_the_program_wrote_stays" 'says before' 'says LEAK'
mkfifo "$work/pipe"
run timeout 300 env NXMEM_REPORT="$work/pipe" LD_PRELOAD="$preload" "$program"
proves "a_pipe_that_nobody_reads_is_passed_by" 'exits 0' 'says LEAK'
echo "an older and longer report than the one to come, which is emptied first" >"$work/report"
head -c 100000 /dev/zero >>"$work/report"
run timeout 300 env NXMEM_REPORT="$work/report" LD_PRELOAD="$preload" "$program"
proves "an_older_report_is_replaced" 'exits 0' is_silent 'reports LEAK' '[ "$(wc -c <"$work/report")" -lt 100000 ]'
finish
