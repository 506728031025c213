#!/bin/bash
# What the report says of names: which entry points a process resolved, which of them nobody here knows, and what is out of sight.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
. tests/integration/shim.sh
cases=$here/tests/cases/programs

# The words behind `"KEY": [` of the report, one a line.
listed() { sed -n "s/^ *\"$1\": \[\(.*\)\].*/\1/p" "$work/report" | sed 's/", "/"\n"/g' | tr -d '"'; }
lists() { listed "$1" | grep -qxF "$2"; }
lists_not() { ! lists "$1" "$2"; }
lists_nothing() { [ -z "$(listed "$1")" ]; }
has_no_coverage() { grep -q '"coverage": null' "$work/report"; }

json NXMEM_COVERAGE=1 "$cases/three-and-two"
proves "a_runtimes_lookups_are_told_apart" 'exits 0' 'lists hooked cuMemAlloc_v2' 'lists hooked cuMemFreeAsync_ptsz' \
    'lists passed cuLaunchKernel' 'lists passed cuMemcpyHtoD' 'lists_nothing unknown' 'lists_nothing unknown_names'
proves "what_a_program_links_is_resolved_too" 'lists hooked cudaMalloc' 'lists passed cudaSetDevice || lists hooked cudaFree'
proves "what_nobody_asked_for_is_not_listed" 'lists_not hooked cuIpcGetMemHandle || lists passed cuIpcGetEventHandle' \
    'lists_not passed cuTexRefCreate' 'lists_not hooked cudaMallocArray'
json "$cases/three-and-two"
proves "nothing_is_listed_unasked" has_no_coverage 'lists_nothing unknown_names' 'lists_nothing uncovered'

LD_LIBRARY_PATH=$here/sim/99.0:$LD_LIBRARY_PATH json "$cases/by-name-and-version"
proves "forms_of_the_future_that_allocate_are_named_unasked" 'exits 0' has_no_coverage 'lists unknown_names "cuMemAlloc (version 99000)"' \
    'lists unknown_names "cuMemAllocAsync (version 99000)"' '[ "$(listed unknown_names | wc -l)" = 3 ]'
LD_LIBRARY_PATH=$here/sim/99.0:$LD_LIBRARY_PATH shimmed "$cases/by-name-and-version"
proves "they_are_one_line_of_the_text" '[ "$(grep -c "^unknown names  .*cuMemAlloc (version 99000)" "$work/report")" = 1 ]' \
    'reports_not "^coverage"'
LD_LIBRARY_PATH=$here/sim/99.0:$LD_LIBRARY_PATH json NXMEM_COVERAGE=1 "$here/tests/routing/every-name" \
    "$here/sim/99.0/libcuda.so.1" "$here/sim/libcudart.so.13"
proves "names_of_the_future_are_unknown_and_only_those_that_allocate_are_remarked" 'lists unknown "cuFutureMemAlloc (version 99000)"' \
    'lists unknown "cuFutureCall (version 99000)"' 'lists unknown_names "cuFutureMemAlloc (version 99000)"' \
    'lists_not unknown_names "cuFutureCall (version 99000)"'
proves "what_is_asked_for_in_vain_is_in_no_list" 'lists_not unknown cuNoSuchThing' 'lists_not passed cuNoSuchThing'
proves "a_process_that_only_asks_has_a_report_of_it" 'grep -q "\"plugin\": null" "$work/report"' 'lists hooked cuMemAlloc_v2'
[ -n "${SAN:-}" ] || {
    json NXMEM_COVERAGE=1 python3 -c "
import ctypes
driver = ctypes.CDLL('$here/tests/routing/cuda/libcuda.so.1')
for name in 'cuInit', 'cuMemAlloc_v2', 'cuMemAlloc_v9', 'cuMemAlloc_v8': getattr(driver, name, None)"
    proves "a_symbol_that_nobody_knew_is_unknown_by_its_own_name" 'exits 0' 'lists unknown cuMemAlloc_v9' 'lists unknown_names cuMemAlloc_v9' \
        'lists hooked cuMemAlloc_v2' 'lists passed cuInit'
    proves "one_that_nobody_has_is_not" 'lists_not unknown cuMemAlloc_v8' 'lists_not unknown_names cuMemAlloc_v8'
}
[ -n "${SAN:-}" ] || {
    cat >"$work/asks.py" <<PYTHON
import ctypes
driver = ctypes.CDLL('$here/tests/routing/cuda/libcuda.so.1')
address = ctypes.c_ulonglong()
driver.cuMemAlloc_v2(ctypes.byref(address), 8)
for name in 'cuMemAlloc_v9', 'cuMemAlloc_v8', 'cuCtxGetCurrent': getattr(driver, name, None)
PYTHON
    json python3 "$work/asks.py"
    proves "an_unknown_symbol_that_allocates_is_named_unasked" 'exits 0' has_no_coverage '[ "$(listed unknown_names)" = cuMemAlloc_v9 ]'
}
json NXMEM_COVERAGE=1 /bin/true
proves "a_process_that_asks_for_nothing_of_cuda_has_none" 'exits 0' has_no_report is_silent
for version in 11.4 12.4; do
    LD_LIBRARY_PATH=$here/sim/$version:$LD_LIBRARY_PATH json NXMEM_COVERAGE=1 "$cases/by-name-and-version"
    proves "nothing_of_driver_${version}_is_unknown" 'exits 0' 'lists hooked cuMemAlloc_v2' 'lists_nothing unknown' 'lists_nothing unknown_names'
done

# A sanitizer's runtime must come first, refuses RTLD_DEEPBIND, and is in one namespace only.
if [ -z "${SAN:-}" ]; then
    run "$here/bin/nxrun" --coverage -- "$cases/three-and-two"
    proves "nxrun_prints_them" 'says "coverage            resolved: "' 'says "    hooked   cu"' 'says "    passed   cu"'

    program=$programs/out-of-sight
    runtime=$here/sim/libcudart.so.13
    for way in namespace same-namespace deepbind; do
        native "$program" $way "$runtime"
        keep_native
        json "$program" $way "$runtime"
        proves "${way}_is_the_same" 'exits 0' same_output same_status has_report
        mv "$work/report" "$work/report.$way"
    done
    cp "$work/report.namespace" "$work/report"
    proves "a_namespace_of_its_own_is_uncovered_and_said_so" 'lists uncovered "libcudart.so.13 (a namespace of its own)"' \
        'amount_is leaked 1 1000'
    cp "$work/report.same-namespace" "$work/report"
    proves "the_programs_own_namespace_is_covered" 'lists_nothing uncovered' 'amount_is leaked 2 3000'
    cp "$work/report.deepbind" "$work/report"
    proves "deepbind_is_stripped_and_covered" 'lists_nothing uncovered' 'amount_is leaked 2 3000'
    json NXMEM_KEEP_DEEPBIND=1 "$program" deepbind "$runtime"
    proves "deepbind_that_is_kept_is_said_to_be_uncovered" 'exits 0' 'lists uncovered "libcudart.so.13 (RTLD_DEEPBIND)"'
    shimmed NXMEM_KEEP_DEEPBIND=1 "$program" deepbind "$runtime"
    proves "uncovered_files_are_one_line_of_the_text" 'reports "^uncovered +libcudart.so.13 \(RTLD_DEEPBIND\): "'

    native "$program" late "$runtime" "$shim"
    proves "a_shim_opened_late_lets_everything_go_on" 'exits 0' 'prints "cuMemFree(p) -> 0"' \
        'prints "use(dlopen(argv[2], RTLD_NOW)) = 0"' 'prints "dlopen(argv[3], RTLD_NOW) != NULL = 1"'
fi

# Several copies of the runtime: shared in the program, static in what it loads.
native "$here/apps/two-runtimes"
keep_native
json NXMEM_COVERAGE=1 "$here/apps/two-runtimes"
proves "each_copy_of_the_runtime_is_covered" same_output same_status 'lists hooked cudaMalloc' 'lists_nothing uncovered'
finish
