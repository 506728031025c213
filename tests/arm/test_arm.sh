#!/bin/bash
# 64-bit ARM: the shim as the cross compiler builds it, under an emulator: what it needs, its stubs, its routes, and programs whose
# transcripts are the same natively and shimmed.
cd "$(dirname "$0")/../.." || exit 1
BUILD=${BUILD:-build}/aarch64
. tests/shell.sh
unset LD_LIBRARY_PATH
. tests/integration/shim.sh
. tests/cases/same.sh
sysroot=/usr/aarch64-linux-gnu
loads=$LD_LIBRARY_PATH # for the emulated program, and not for the emulator
unset LD_LIBRARY_PATH

# Settings before a program are the emulated program's; LD_PRELOAD above all, which the emulator itself must not see.
emulated() { # [env] [VARIABLE=VALUE]… program [argument]…
    local settings=(-E "LD_LIBRARY_PATH=$loads")
    [ "$1" != env ] || shift
    while [[ $1 == *=* ]]; do
        settings+=(-E "$1")
        shift
    done
    run timeout 300 qemu-aarch64 -L $sysroot "${settings[@]}" "$@"
}
native() { emulated "$@"; }
shimmed() {
    rm -f "$work/report"
    emulated NXMEM_REPORT="$work/report" LD_PRELOAD="$preload" "$@"
}
modes="direct host"

is_arm() { readelf -h "$1" | grep -q 'Machine:.*AArch64'; }
proves "the_cross_compilers_shim_is_for_arm" 'is_arm "$shim"' 'is_arm "$here/lib/nxmem/direct.so"'
proves "it_needs_and_exports_what_it_should" 'scripts/check-exports "$shim"'
proves "its_plugins_need_no_newer_glibc" '! readelf -V "$here"/lib/nxmem/*.so | grep -oE "GLIBC_2\.[0-9]+" | sort -u | grep -v "GLIBC_2\.17"'

# The stubs alone, over drivers that say what was hit.
routes=$here/tests/routing
loads=
emulated LD_PRELOAD="$routes/libroutes.so" "$routes/program" "$routes"
proves "a_lookup_is_answered_by_the_stub" 'exits 0' 'prints "cuMemAlloc_v2 by libroutes.so"'
emulated LD_PRELOAD="$routes/libroutes.so" "$routes/program_linked" "$routes"
proves "a_linked_name_and_a_lookup_are_ours" 'exits 0' 'prints "linked libroutes.socuMemAlloc_v2 by libroutes.so"'
emulated LD_PRELOAD="$routes/libroutes.so" "$routes/program" "$routes" inside
proves "a_driver_that_looks_itself_up_meets_itself" 'exits 0' 'prints "the driver finds libcuda.so.1"'
emulated "$routes/program" "$routes"
proves "natively_it_is_the_drivers" 'exits 0' 'prints "cuMemAlloc_v2 by libcuda.so.1"'
emulated "$routes/program" "$routes" "$routes/libroutes.so"
proves "opened_late_it_harms_nothing" 'exits 0' 'prints "cuMemAlloc_v2 by libcuda.so.1"'

# Every name by every route, as tests/routing/test_every_name.sh has it.
loads=$here/sim
every_name() { emulated "$@" "$routes/every-name" "$here/sim/libcuda.so.1" "$here/sim/libcudart.so.13" global; }
every_name
sed -nE 's/^DRIVER\((\w+),.*/\1/p' interpose/cuda_api.def | awk 'NR == FNR { row[$1]; next }
    $4 in row && $3 == "driver" { $3 = "libnxmem_preload.so" } { print }' - "$work/out" >"$work/expected"
every_name LD_PRELOAD="$shim"
proves "every_name_is_ours_exactly_when_it_has_a_row" 'exits 0' 'cmp -s "$work/expected" "$work/out"' \
    '[ "$(grep -c libnxmem_preload "$work/out")" -gt 1500 ]'

same three_and_two "$cases/three-and-two"
leaks_are three_and_two 1 3000
report_of three_and_two direct
proves "call_stacks_reach_the_programs_start" 'grep -q "\"symbol\": \"cudaMalloc\"" "$work/report"' \
    'grep -q "\"symbol\": \"_start\"" "$work/report"'
same three_and_two_static "$cases/three-and-two-static"
leaks_are three_and_two_static 1 3000
for driver in . 99.0; do
    loads=$here/sim/$driver:$here/sim
    same "by_name_and_version_$driver" "$cases/by-name-and-version"
done
loads=$here/sim
for name in mixed-pairs capture-modes static-objects what-a-pointer-is old-forms graph-nodes first-calls; do
    same "${name//-/_}" "$cases/$name"
done
for name in async contexts order threads; do
    same "$name" "$programs/$name"
done
native "$here/apps/two-runtimes"
keep_native
json "$here/apps/two-runtimes"
proves "two_runtimes_are_told_apart" same_status same_output has_report
finish
