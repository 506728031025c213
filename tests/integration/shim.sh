# For integration tests; read after tests/shell.sh. Runs programs on the simulated CUDA, alone and under the shim.
here=$PWD/$build
programs=$here/tests/integration/programs
shim=$here/lib/libnxmem_preload.so
# In a sanitizer's tree everything is instrumented, and its runtime has to come first.
case ${SAN:-} in
asan) preload=$(gcc -print-file-name=libasan.so):$shim ;;
tsan) preload=$(gcc -print-file-name=libtsan.so):$shim ;;
*) preload=$shim ;;
esac
export ASAN_OPTIONS=detect_leaks=0${ASAN_OPTIONS:+:$ASAN_OPTIONS} # what the programs leak on purpose is not theirs to tell
export LD_LIBRARY_PATH=$here/sim${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
unset NXMEM_PLUGIN NXMEM_MECHANISM NXMEM_ON_ERROR NXMEM_FREE NXMEM_REPORT NXMEM_REPORT_FORMAT NXMEM_LEAK_EXIT_CODE \
    NXMEM_STACKS NXMEM_SUPPRESSIONS NXMEM_VERBOSE NXMEM_HOST_AS_DEVICE NXMEM_HOST_LIMIT NXMEM_FAULTY

# Each leaves $work/out, $work/err, $status (tests/shell.sh); shimmed runs also $work/report.
native() { run timeout 300 "$@"; }
shimmed() {
    rm -f "$work/report"
    run timeout 300 env NXMEM_REPORT="$work/report" LD_PRELOAD="$preload" "$@"
}
on_host() { shimmed NXMEM_PLUGIN=host NXMEM_HOST_AS_DEVICE=1 SIMCUDA_HOST_MEMORY=1 "$@"; }

reports() { grep -qE -- "$1" "$work/report"; }
reports_not() { ! grep -qE -- "$1" "$work/report"; }
has_report() { [ -s "$work/report" ]; }
has_no_report() { [ ! -e "$work/report" ]; }

# Conditions over a native run kept aside.
keep_native() {
    cp "$work/out" "$work/native.out"
    cp "$work/err" "$work/native.err"
    native_status=$status
}
same_output() { cmp -s "$work/native.out" "$work/out" || { diff "$work/native.out" "$work/out" >"$work/err"; false; }; }
same_status() { [ "$status" = "$native_status" ]; }
same_errors() { cmp -s "$work/native.err" "$work/err"; }

# Reports as JSON: numbers to assert on.
json() { shimmed NXMEM_REPORT_FORMAT=json "$@"; }
# class_is CLASS FIELD VALUE: live_blocks, live_bytes, peak_bytes, ever_blocks, ever_bytes
class_field() {
    sed -n "s/^ *\"$1\": {.*\"$2\": \([0-9]*\).*/\1/p" "$work/report"
}
class_is() { [ "$(class_field "$1" "$2")" = "$3" ]; }
# amount_is KEY BLOCKS BYTES: leaked, waiting, quarantined, reclaimed_by_reset, freed_during_exit …
amount_is() { grep -qF "\"$1\": {\"blocks\": $2, \"bytes\": $3}" "$work/report"; }
gate_is() { grep -qF "\"reason\": \"$1\"" "$work/report"; }
plugin_was_unloaded() { grep -qF '"unloaded": true' "$work/report"; }
number_of_reports() { ls "$work"/report* 2>/dev/null | wc -l; }
