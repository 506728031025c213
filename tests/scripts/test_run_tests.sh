#!/bin/bash
# The test runner can fail: it counts what ran, and nothing that went wrong counts as good.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
run_tests=$PWD/scripts/run-tests
mkdir -p "$work/tests/unit" "$work/tests/gpu"
cd "$work" || exit 1

program() { # path, lines…
    printf '#!/bin/sh\n' >"$1"
    printf '%s\n' "${@:2}" >>"$1"
    chmod +x "$1"
}
program tests/unit/good 'echo "ok - one"; echo "ok - two"'
program tests/unit/bad 'echo "ok - one"; echo "not ok - two"; exit 1'
program tests/unit/lying 'echo "not ok - one"; exit 0'
program tests/unit/crash 'echo "ok - one"; kill -SEGV $$'
program tests/unit/slow 'sleep 60'
program tests/unit/plain 'exit 0'
program tests/unit/skip 'exit 77'
cp tests/unit/skip tests/gpu/skip
printf '#!/bin/sh\necho "$SAN/$BUILD"\n' >tests/unit/seen && chmod +x tests/unit/seen
cat >cmocka.c <<'SOURCE'
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
static void good(void **state) { (void)state; }
static void bad(void **state) { (void)state; assert_int_equal(1, 2); }
static void skipped(void **state) { (void)state; skip(); }
int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(good), cmocka_unit_test(bad), cmocka_unit_test(skipped)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
SOURCE
gcc -o tests/unit/cmocka cmocka.c -lcmocka && cp tests/unit/cmocka tests/gpu/cmocka || exit 1
last_line() { [ "$(tail -n 1 "$work/out")" = "$1" ]; }
unset NXMEM_TOTALS SAN BUILD

run "$run_tests" tests/unit/good tests/unit/plain
proves "passes are counted by test, a silent program as one" 'exits 0' 'last_line "3 passed, 0 failed"'
run "$run_tests" tests/unit/good tests/unit/bad
proves "a failing test fails the run and its output is shown" 'exits 1' 'last_line "3 passed, 1 failed"' 'prints "not ok - two"'
proves "the output of what passed is kept, not shown" '! prints "unit.good.log"' 'grep -q "ok - two" build/logs/tests/unit.good.log'
run "$run_tests" tests/unit/lying
proves "a failure that exits 0 is a failure" 'exits 1' 'last_line "0 passed, 1 failed"'
run "$run_tests" tests/unit/crash
proves "a crash after a pass is a failure" 'exits 1' 'last_line "1 passed, 1 failed"'
run "$run_tests" --timeout 1 tests/unit/slow
proves "a program that hangs is ended and fails" 'exits 1' 'last_line "0 passed, 1 failed"' 'prints "ended after 1 s"'
run "$run_tests" tests/unit/none
proves "a program that is not there is a failure" 'exits 1' 'last_line "0 passed, 1 failed"'
run "$run_tests"
proves "nothing to run is a failure" 'exits 2'
run "$run_tests" tests/unit/skip
proves "a skip is a failure" 'exits 1' 'last_line "0 passed, 1 failed"'
run "$run_tests" tests/gpu/skip tests/unit/plain
proves "a skip of a GPU's test is only counted" 'exits 0' 'last_line "1 passed, 0 failed, 1 skipped"'
run "$run_tests" tests/unit/cmocka
proves "cmocka's tests are counted one by one, its skip a failure" 'exits 1' 'last_line "1 passed, 2 failed"'
run "$run_tests" tests/gpu/cmocka
proves "cmocka's skip of a GPU's test is only counted" 'exits 1' 'last_line "1 passed, 1 failed, 1 skipped"'
run "$run_tests" --seconds 0 tests/unit/good tests/unit/plain
proves "what the time box leaves out is named" 'exits 0' 'prints "2 of 2 programs not run"' 'last_line "0 passed, 0 failed"'
run "$run_tests" --wrap 'sh -c false' tests/unit/good
proves "a wrapper's failure is the program's" 'exits 1' 'last_line "0 passed, 1 failed"'
run env SAN=asan BUILD=elsewhere "$run_tests" tests/unit/seen
proves "programs learn the build and the sanitizer" 'exits 0' 'grep -qx asan/elsewhere elsewhere/logs/tests/unit.seen.log'
NXMEM_TOTALS=$work/totals "$run_tests" tests/unit/bad tests/gpu/skip >/dev/null 2>&1
proves "the totals are left for who adds them up" '[ "$(cat totals)" = "1 1 1" ]'
proves "what_failed_is_left_by_name" '[ "$(grep -c "^FAIL  tests: " totals.failed)" = 1 ]' 'grep -q "unit.bad" totals.failed'
finish
