#!/bin/bash
# Every way a process ends, with every state of the plugin's memory: it ends as it does natively, the report appears once and says
# what is left, and the plugin is mapped afterwards exactly when something is, as /proc/self/maps says and its code that runs then.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
. tests/integration/shim.sh
program=$programs/gate
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}handle_segv=0:handle_abort=0" TSAN_OPTIONS="${TSAN_OPTIONS:+$TSAN_OPTIONS:}handle_segv=0:handle_abort=0:report_thread_leaks=0"
export GATE_SEEN=$work/seen
journal=$work/journal

one_report() { [ "$(number_of_reports)" = 1 ]; }
no_report() { [ "$(number_of_reports)" = 0 ]; }
seen() { grep -qxF -- "$1" "$work/seen"; }
unseen() { [ ! -e "$work/seen" ]; }
gate_was_not_asked() { grep -qF '"asked": false' "$work/report"; }

ends() { # way, what, environment…
    local way=$1 what=$2
    shift 2
    native "$program" $way $what
    keep_native
    rm -f "$work"/report* "$work/seen" "$journal"
    run timeout 300 env GATE_PLUGIN="$path" NXMEM_PLUGIN="$path" "$@" \
        NXMEM_REPORT="$work/report.%p" NXMEM_REPORT_FORMAT=json LD_PRELOAD="$preload" "$program" $way $what
    proves "nothing_differs_when_${way}_leaves_${what}_of_${plugin}" same_output same_status is_silent
}
# What is left, as the report has it.
amounts() {
    case $what in
    nothing) amount_is leaked 0 0 && amount_is waiting 0 0 ;;
    live) amount_is leaked 1 5000 && amount_is waiting 0 0 ;;
    *) if [ "$waits" = 1 ]; then amount_is leaked 0 0 && amount_is waiting 1 5000; else amount_is leaked 0 0 && amount_is waiting 0 0; fi ;;
    esac
}
something_is_left() { [ $what = live ] || { [ $what != nothing ] && [ $waits = 1 ]; }; }

export NXMEM_HOST_AS_DEVICE=1 SIMCUDA_HOST_MEMORY=1 NXMEM_FAULTY=sound
for plugin in direct host faulty; do
    path=$here/lib/nxmem/$plugin.so waits=1 states="nothing live waiting endless"
    case $plugin in
    direct) waits=0 ;; # the driver itself keeps the order of its releases
    host) states="nothing live waiting" ;; # a kernel would be one on memory that the device has not
    faulty) path=$here/tests/plugins/faulty.so; export NXMEM_MECHANISM=faulty ;; # a sound one, of driver memory
    esac
    for what in $states; do
        for way in return exit quick_exit thread last-thread; do
            # A device that is at work has a thread in the simulator, so that the last one of the program ends nothing.
            case $way-$what in last-thread-waiting | last-thread-endless) continue ;; esac
            ends $way $what
            mv "$work"/report.* "$work/report" 2>/dev/null
            proves "one_report_says_what_is_left_when_${way}_leaves_${what}_of_${plugin}" one_report amounts
            if something_is_left; then
                proves "the_plugin_stays_mapped_and_usable_when_${way}_leaves_${what}_of_${plugin}" 'gate_is host' 'seen "mapped 1"' 'seen "its code answers 0"'
            else
                proves "the_plugin_is_unmapped_when_${way}_leaves_${what}_of_${plugin}" plugin_was_unloaded 'seen "mapped 0"'
            fi
        done
        for way in _exit _Exit; do
            ends $way $what
            mv "$work"/report.* "$work/report" 2>/dev/null
            proves "the_plugin_is_not_asked_when_${way}_leaves_${what}_of_${plugin}" one_report amounts gate_was_not_asked unseen
        done
        for way in abort segv term kill; do
            ends $way $what NXMEM_JOURNAL="$journal" NXMEM_JOURNAL_SIZE=64
            proves "no_report_is_written_when_${way}_leaves_${what}_of_${plugin}" no_report unseen
            "$here/bin/nxmem-report" --format json "$journal" >"$work/report"
            proves "the_journal_tells_what_is_left_when_${way}_leaves_${what}_of_${plugin}" amounts
        done
    done
done
finish
