#!/bin/bash
# The fuzzing step is red when a target finds something, ends without having run, or is not there.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
mkdir -p "$work/tree/scripts"
cp scripts/fuzz "$work/tree/scripts/"
cd "$work/tree" || exit 1
unset BUILD

target() { # name, body
    printf '#!/bin/sh\n%s\n' "$2" >"$1"
    chmod +x "$1"
}
target good 'echo "#9 DONE cov: 17 ft: 30"; echo "stat::number_of_executed_units: 9"'
target finds 'echo "prefix.c:3: not so"; exit 77'
target idle 'exit 0'
target asked 'echo "$@" >asked.for; echo "stat::number_of_executed_units: 1"'

run scripts/fuzz ./good
proves "a target that finds nothing says what it did" 'exits 0' 'prints "ok - good: 9 inputs, 17 edges"' 'prints "1 targets"'
run scripts/fuzz ./good ./finds
proves "a target that finds something is red, with its output" 'exits 1' 'prints "not ok - finds"' 'prints "prefix.c:3: not so"'
run scripts/fuzz ./idle
proves "a target that ran nothing is red" 'exits 1' 'prints "not ok - idle"'
run scripts/fuzz ./missing ./good
proves "a target that is not there is red" 'exits 1' 'prints "not ok - missing"' 'prints "ok - good"'
run scripts/fuzz
proves "no target at all is red" 'exits 2'
run scripts/fuzz --seconds 3 ./asked
proves "the time and the committed corpus reach the target" 'exits 0' 'grep -q -- "-max_total_time=3 " asked.for' \
    'grep -q "tests/fuzz/corpus/asked" asked.for'
finish
