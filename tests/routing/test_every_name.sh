#!/bin/bash
# Every name of the simulated driver and runtime, by every route and on every version of the driver: the answer is ours exactly when
# its symbol has a row, and otherwise what it is natively. With other preloaded libraries before and after us too.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
here=$PWD/$build
shim=$here/lib/libnxmem_preload.so
program=$here/tests/routing/every-name
[ "${EMULATOR:-}" ] || EMULATOR=env # what the arm tests put before a program

sed -nE 's/^(DRIVER|RUNTIME)\((\w+),.*/\2/p' interpose/cuda_api.def >"$work/rows"
nm -D --defined-only "$here/sim/libcudart.so.13" | awk '{ sub(/@.*/, "", $3) } $3 ~ /^cuda/ { print $3 }' | sort -u >"$work/runtime"

# What is native, with the hooked symbols ours. A runtime's name gets a hook for that very runtime, which has no name of its own.
ours() {
    awk 'NR == FNR { row[$1]; next }
        $4 in row && ($3 == "driver" || $3 == "runtime") { if ($3 == "runtime") $4 = "-"; $3 = "ours" }
        { print }' "$work/rows" -
}
named() { sed "s/ $(basename "$shim") / ours /"; }

ask() { # preload, driver's folder
    $EMULATOR LD_PRELOAD="$1" LD_LIBRARY_PATH="$2:$here/sim" "$program" "$2/libcuda.so.1" "$here/sim/libcudart.so.13" $scope <"$work/runtime"
}
scope= # "global": as if the program had linked the driver

natively() { # driver's folder
    ask "" "$1" >"$work/native" 2>"$work/err"
    status=$?
    ours <"$work/native" >"$work/expected"
}

behind() { # preload, driver's folder
    ask "$1" "$2" 2>"$work/err" | named >"$work/out"
    status=${PIPESTATUS[0]}
    diff "$work/expected" "$work/out" >"$work/difference" || head -n 12 "$work/difference" >"$work/err"
}

as_expected() { cmp -s "$work/expected" "$work/out"; }
asks_enough() { [ "$(wc -l <"$work/native")" -gt "$1" ]; }
gives_ours() { [ "$(grep -c ' ours ' "$work/out")" -gt "$1" ]; }

for version in . 11.4 12.4 99.0; do
    natively "$here/sim/$version"
    proves "a_driver_of_version_${version}_is_asked" 'exits 0' 'asks_enough 20000'
    behind "$shim" "$here/sim/$version"
    proves "every_name_of_version_${version}_is_ours_exactly_when_it_has_a_row" 'exits 0' as_expected 'gives_ours 1000'
done

scope=global
natively "$here/sim"
proves "the_runtimes_per_thread_door_is_asked_too" 'grep -q "^runtime_ptsz/13000/0 cuMemAllocAsync ours cuMemAllocAsync_ptsz$" "$work/expected"'
behind "$shim" "$here/sim"
proves "every_name_in_the_programs_own_scope_is_ours_exactly_when_it_has_a_row" 'exits 0' as_expected 'gives_ours 1500' \
    'grep -q "^default cuMemAlloc_v2 ours" "$work/out"' 'grep -q "^next cuMemAlloc_v2 ours" "$work/out"'
scope=
library_of() { ls /usr/lib/x86_64-linux-gnu/$1 /usr/lib64/$1 /usr/lib/$1 2>/dev/null | head -n 1; }
for version in . 11.4 12.4 99.0; do
    natively "$here/sim/$version"
    for other in ${OTHERS-libjemalloc.so.2 libmimalloc.so.2}; do
        path=$(library_of "$other")
        behind "$path:$shim" "$here/sim/$version"
        proves "version_${version}_is_the_same_behind_$other" '[ -n "$path" ]' 'exits 0' as_expected
        behind "$shim:$path" "$here/sim/$version"
        proves "version_${version}_is_the_same_before_$other" 'exits 0' as_expected
    done
done
finish
