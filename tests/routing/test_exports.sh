#!/bin/bash
# The routes by themselves, and the whole shim, keep the shim's promises: libc only, from glibc 2.17 on, unversioned exports, and decider
# files that call nothing which a sanitizer might stand in front of before it has started.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${BUILD:-build}
status=0

check() { # name, command…
    local name=$1
    shift
    if "$@"; then echo "ok - $name"; else echo "not ok - $name"; status=1; fi
}

calls_no_libc() {
    local foreign
    foreign=$(nm -u "$build"/interpose/route.o "$build"/interpose/route_*.o |
        awk '$1 == "U" && $2 !~ /^(nxm_|cu|_DYNAMIC|_GLOBAL_OFFSET_TABLE_)/ { print $2 }')
    [ -z "$foreign" ] || echo "route files call: $foreign"
    [ -z "$foreign" ]
}

need_no_newer_glibc() { # file…
    local newer
    newer=$(readelf --dyn-syms -W "$@" | grep -oE '\w+@GLIBC_2\.(1[89]|[2-9][0-9])' | sort -u)
    [ -z "$newer" ] || echo "they need: $newer"
    [ -z "$newer" ]
}

make --no-print-directory -s SAN="${SAN:-}" BUILD="$build" "$build/tests/routing/libroutes.so" all || exit 1
check "exports_are_the_rows_unversioned_and_libc_is_all_it_needs" \
    env SANITIZED="${SAN:-}" scripts/check-exports "$build/tests/routing/libroutes.so" 2.17
if [ -z "${SAN:-}" ]; then
    check "so_does_the_whole_shim" scripts/check-exports "$build/lib/libnxmem_preload.so"
    check "its_plugins_need_glibc_2_17_too" need_no_newer_glibc "$build"/lib/nxmem/*.so
    check "its_tools_need_glibc_2_17_too" need_no_newer_glibc "$build"/bin/nxmem-*
fi
check "the_deciders_call_nothing_of_libc" calls_no_libc
exit $status
