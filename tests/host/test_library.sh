#!/bin/bash
# The host library as others meet it: its header in both languages, what its two forms show and need, and programs that know the
# header only.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
plugin=$PWD/$build/lib/nxmem/host.so
shared=$build/lib/libnxmem_host.so
case $build in /*) plugin=$build/lib/nxmem/host.so ;; esac

for form in c-static c-shared cxx-static cxx-shared; do
    run "$build/tests/host/program-$form" "$plugin"
    proves "a program works: $form" 'exits 0' is_silent 'prints "all as it should be"'
done
run "$build/tests/host/example-host" "$plugin"
proves "the documented example works" 'exits 0' is_silent 'prints "1 MiB"'
run "$build/tests/host/example-queue" "$plugin"
proves "and so does the one with a queue" 'exits 0' is_silent 'prints "100 rounds, "' 'prints " blocks retired"' '! grep -q " 0 of them\|, 0 blocks" "$work/out"'
run "$build/tests/host/example-host" /no/such/plugin.so
proves "and says what went wrong" 'exits 1' prints_nothing 'says "cannot open:"' says_one_line

printf '#include <nxmem_host.h>\n#include <nxmem_host.h>\nint main(void) { return NXMEM_HOST_OK; }\n' >"$work/one.c"
for compiler in gcc clang; do
    for standard in c99 c11 c17; do
        run $compiler -std=$standard -Wall -Wextra -Wconversion -pedantic -Werror -Iinclude -fsyntax-only "$work/one.c"
        proves "the header compiles alone: $compiler $standard" 'exits 0' is_silent
    done
done
for compiler in g++ clang++; do
    for standard in c++11 c++17 c++20; do
        run $compiler -x c++ -std=$standard -Wall -Wextra -Wconversion -pedantic -Werror -Iinclude -fsyntax-only "$work/one.c"
        proves "the header compiles alone: $compiler $standard" 'exits 0' is_silent
    done
done

# What the header declares, by name.
gcc -E -P -Iinclude "$work/one.c" | grep -oE '\bnxmem_host_\w+\(' | tr -d '(' | sort -u >"$work/declared"
nm -D --defined-only "$shared" | awk '$2 == "T" { print $3 }' | sed 's/@.*//' | sort -u >"$work/shown"
nm -g --defined-only "$build/lib/libnxmem_host.a" | awk 'NF == 3 && $2 != "N" { print $3 }' | grep -v '^__odr_asan' | sort -u >"$work/archived"
run wc -l "$work/declared"
proves "the shared library shows what the header declares, and nothing else" '[ -s "$work/declared" ]' 'diff "$work/declared" "$work/shown"'
proves "and so does the static one" 'diff "$work/declared" "$work/archived"'
# What writes through a pointer of the caller's has a row in the table of such pointers.
gcc -E -P -Iinclude "$work/one.c" | tr '\n' ' ' | grep -oE '\bnxmem_host_\w+\([^)]*\bret_\w+[^)]*\)' | cut -d '(' -f 1 | sort -u >"$work/writes"
grep -oE '^    ROW\(nxmem_host_\w+' tests/host/test_arguments.c | cut -d '(' -f 2 | sort -u >"$work/tried"
run comm -23 "$work/writes" "$work/tried"
proves "each function with an output is tried without one" '[ "$(wc -l <"$work/writes")" -gt 15 ]' prints_nothing
run readelf -dW "$shared"
proves "its soname has the major version" "prints 'soname: [libnxmem_host.so.$(cut -d . -f 1 VERSION)]'"
proves "it is never unmapped" 'prints NODELETE'
[ -n "${SAN:-}" ] || proves "it needs libc and nothing else" '[ "$(grep -c NEEDED "$work/out")" = 1 ]' "prints 'Shared library: [libc.so.6]'"
run nm -D "$shared"
proves "its symbols are versioned" "prints 'nxmem_host_load@@NXMEM_HOST_1'"
finish
