#!/bin/bash
# The plugin of the guide: one file that needs the public header and nothing else, and serves whole programs.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
. tests/integration/shim.sh
mkdir "$work/include"
cp include/nxmem_memory_abi.h "$work/include/"

for compiler in gcc clang; do
    run $compiler -Wall -Wextra -Werror -shared -fPIC -I"$work/include" -o "$work/example.so" docs/example-plugin.c
    proves "the_example_builds_on_the_header_alone_with_$compiler" 'exits 0' is_silent
done

with_example() { json NXMEM_PLUGIN="$work/example.so" NXMEM_MECHANISM=example "$@"; }
for program in sync async threads faults; do
    native "$programs/$program"
    keep_native
    with_example "$programs/$program"
    proves "${program}_is_served_as_by_the_driver" same_status same_output is_silent 'amount_is leaked 0 0'
done
with_example "$here/apps/demo"
proves "a_leak_keeps_it_mapped" 'exits 0' is_silent 'amount_is leaked 2 2100224' 'gate_is host || gate_is plugin'
with_example "$programs/threads"
proves "an_idle_one_is_unloaded" plugin_was_unloaded
finish
