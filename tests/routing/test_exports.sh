#!/bin/bash
# The routes by themselves keep the shim's promises: libc only, from glibc 2.17 on, unversioned exports, and decider
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

make --no-print-directory -s SAN="${SAN:-}" "$build/tests/routing/libroutes.so" || exit 1
check exports_are_the_rows_unversioned_and_libc_is_all_it_needs \
    env SANITIZED="${SAN:-}" scripts/check-exports "$build/tests/routing/libroutes.so" 2.17
check the_deciders_call_nothing_of_libc calls_no_libc
exit $status
