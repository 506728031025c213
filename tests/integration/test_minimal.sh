#!/bin/bash
# The plugin of the guide: one file that needs the public header and nothing else, keeps every rule that can be tried, and
# serves whole programs.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
. tests/integration/shim.sh
mkdir "$work/include"
cp include/nxmem_memory_abi.h "$work/include/"

for compiler in clang gcc; do
    run $compiler -std=c11 -Wall -Wextra -Werror -shared -fPIC -I"$work/include" -o "$work/minimal.so" plugins/minimal.c
    proves "it_builds_on_the_header_alone_with_$compiler" 'exits 0' is_silent
done
[ -n "${SAN:-}" ] || {
    run timeout 300 "$here/bin/nxmem-check" "$work/minimal.so"
    proves "it_keeps_every_rule" 'exits 0' is_silent 'prints ", 0 failed,"' 'grep -q "pass  11.5    allocates" "$work/out"'
}

with_minimal() { json NXMEM_PLUGIN="$work/minimal.so" NXMEM_MECHANISM=minimal "$@"; }
for program in sync async threads faults; do
    native "$programs/$program"
    keep_native
    with_minimal "$programs/$program"
    proves "${program}_is_served_as_by_the_driver" same_status same_output is_silent 'amount_is leaked 0 0'
done
with_minimal "$here/apps/demo"
proves "a_leak_keeps_it_mapped" 'exits 0' is_silent 'amount_is leaked 2 2100224' 'gate_is host || gate_is plugin'
with_minimal "$programs/threads"
proves "an_idle_one_is_unloaded" plugin_was_unloaded
finish
