#!/bin/bash
# 64-bit ARM: the tests of core, of the shim's parts and of the routes, as the cross compiler builds them, under an emulator. What the
# emulator itself does otherwise is listed: such a test must fail and no other may. In a box of time; what is left out is named.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
seconds=${NXMEM_ARM_SECONDS:-300}
here=$PWD/$build/aarch64/tests
export NXM_EMULATOR="$(command -v qemu-aarch64) -L /usr/aarch64-linux-gnu"
export NXM_EMULATED_LIBRARIES=$PWD/build/aarch64-cmocka/usr/lib/aarch64-linux-gnu
export CC=aarch64-linux-gnu-gcc # of the tests that build libraries
unset LD_LIBRARY_PATH LD_PRELOAD

# program: test
cat >"$work/emulators" <<'LIST'
test_image_older: the_program_is_found_under_its_own_path
test_journal: a_journal_takes_no_more_of_the_disk_than_it_needs
test_journal: another_process_reads_the_tables_where_they_lie
test_runtimes: a_caller_that_takes_anothers_place_is_looked_up_afresh
test_library: what_the_loader_refuses_names_the_file_once
test_stack: another_library_at_the_same_place_is_another_stack
LIST
expected() { sed -n "s/^$1: //p" "$work/emulators"; }
failing() { sed -n 's/^\[  FAILED  \] \([a-z0-9_]*\)$/\1/p' "$work/out" "$work/err" | sort -u; }
fails_where_it_must() {
    expected "$1" | sort >"$work/wanted"
    failing >"$work/failing"
    diff "$work/wanted" "$work/failing" >>"$work/err"
}
ran() { cat "$work/out" "$work/err" | grep -q '^\[==========\] [0-9]* test(s) run'; }
ended() { [ "$status" -lt 124 ] && [ -n "$(expected "$1")" -o "$status" = 0 ]; }

began=$SECONDS left=
for program in "$here"/routing/test_* "$here"/interpose/test_* "$here"/unit/test_*; do
    [ -x "$program" ] && [[ $program != *.sh ]] || continue
    name=${program##*/}
    if [ $((SECONDS - began)) -gt "$seconds" ]; then
        left="$left $name"
        continue
    fi
    # shellcheck disable=SC2086 # the emulator is a command line
    run timeout 300 $NXM_EMULATOR -E LD_LIBRARY_PATH="$NXM_EMULATED_LIBRARIES" "$program"
    proves "${name}_holds_on_arm" ran "ended $name" "fails_where_it_must $name"
done
[ -z "$left" ] || echo "not begun after $seconds s:$left"
proves "most_of_them_ran" '[ "$(echo $left | wc -w)" -lt 30 ]'
finish
