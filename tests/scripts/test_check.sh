#!/bin/bash
# The list of checks adds up right and is red when any one step is, with stand-ins for all that it calls.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
mkdir -p "$work/tree/scripts" "$work/tree/build/tests/unit" "$work/bin"
cp scripts/check "$work/tree/scripts/"
cd "$work/tree" || exit 1
unset NXMEM_TOTALS CI
export FAKE=$work

stand_in() { # path, body
    printf '#!/bin/sh\n%s\n' "$2" >"$1"
    chmod +x "$1"
}
good() {
    stand_in "$work/bin/make" 'case "$*" in
*demo-llama*) echo "no leaks" ;;
*demo*) echo "LEAK: 2 blocks" ;;
*coverage*) echo "98% of lines" ;;
*test-programs* | *fuzz) ;;
*) echo "3 0 0" >>"$NXMEM_TOTALS" ;;
esac'
    for name in check-includes check-exports check-coverage check-pages check-test-map evidence-page fetch-older-cuda; do stand_in scripts/$name 'echo fine'; done
    stand_in scripts/run-tests 'echo "2 0 1" >>"$NXMEM_TOTALS"'
    stand_in scripts/mutate 'echo "5 0 0" >>"$NXMEM_TOTALS"'
    stand_in build/tests/unit/test_one true
}
check() { run env PATH="$work/bin:$PATH" NXMEM_CHECK_SECONDS="${NXMEM_CHECK_SECONDS:-}" scripts/check; }
last_line() { [ "$(tail -n 1 "$work/out")" = "$1" ]; }

good
check
proves "all good: every step and test is counted" 'exits 0' 'last_line "35 passed, 0 failed, 1 skipped"' '! prints "what failed"'
for script in check-includes check-exports check-coverage check-pages check-test-map evidence-page fetch-older-cuda; do
    good
    stand_in scripts/$script 'echo trouble; exit 1'
    check
    proves "a failing $script is red, with its output" 'exits 1' 'last_line "34 passed, 1 failed, 1 skipped"' 'prints trouble' \
        'prints "what failed"'
done
good
rm scripts/check-exports
check
proves "a check that is not there is red" 'exits 1' 'last_line "34 passed, 1 failed, 1 skipped"'
good
stand_in "$work/bin/make" 'exit 2'
check
proves "builds that fail are red, also before any test ran" 'exits 1' 'last_line "14 passed, 11 failed, 1 skipped"'
good
sed -i 's/ | \*fuzz) ;;/) ;; *fuzz) exit 1 ;;/' "$work/bin/make"
check
proves "a fuzz target that finds something is red" 'exits 1' 'last_line "34 passed, 1 failed, 1 skipped"'
good
sed -i 's/LEAK:/leak/' "$work/bin/make"
check
proves "a demo without its report is red" 'exits 1' 'last_line "34 passed, 1 failed, 1 skipped"'
good
stand_in scripts/mutate 'echo "4 1 0" >>"$NXMEM_TOTALS"; exit 1'
check
proves "a surviving mutant is red" 'exits 1' 'last_line "34 passed, 1 failed, 1 skipped"'
good
stand_in scripts/mutate 'echo "5 0 0" >>"$NXMEM_TOTALS"; exit 1'
check
proves "a step that fails after good counts is red" 'exits 1' 'last_line "35 passed, 1 failed, 1 skipped"'
good
stand_in scripts/mutate 'echo "asked: $*"; echo "5 0 0" >>"$NXMEM_TOTALS"'
check
proves "a quick machine tries mutants for ten minutes" 'exits 0' 'prints "asked: --seconds 600"'
NXMEM_CHECK_SECONDS=0 check
proves "a slow one for a minute at least" 'exits 0' 'prints "asked: --seconds 60"' '! prints "--seconds 600"'
good
stand_in scripts/mutate true
check
proves "a step that counts nothing is red" 'exits 1' 'last_line "30 passed, 1 failed, 1 skipped"'
finish
