#!/bin/bash
# The README is complete and true: its example runs, and it names every setting, every control and every finding that there
# is, and no other.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
readme=tests/sim/README.md
here=$PWD/$build

sed -n '/^```c$/,/^```$/p' $readme | sed '1d;$d' >"$work/example.c"
run ${CC:-gcc} -Wall -Wextra -Werror -isystem "$(scripts/find-cuda headers)" -Itests/sim -o "$work/example" "$work/example.c" "$here/sim/libcuda.so.1" -ldl
[ -n "${SAN:-}" ] || proves "the_example_builds" 'exits 0'
run env LD_LIBRARY_PATH="$here/sim" timeout 300 "$work/example"
[ -n "${SAN:-}" ] || proves "the_example_shows_what_it_says" 'exits 0' '[ "$(cat "$work/out")" = "1
1" ]' 'says "[unordered-free]"'

same_words() { # what the code has, what the page has
    diff <(sort -u "$1") <(sort -u "$2") >"$work/out"
}

facts=$(sed -n 's/^FACT(\([a-z_]*\),.*/SIMCUDA_\U\1/p' tests/sim/driver/facts.def)
{
    sed -n 's/^SETTING(\([A-Z_]*\),.*/SIMCUDA_\1/p' tests/sim/driver/setting.def
    echo SIMCUDA_FREE_WAITS # stands for the facts
} >"$work/settings"
grep -oE 'SIMCUDA_[A-Z_]+' $readme >"$work/written"
proves "every_setting_is_there_and_no_other" 'same_words "$work/settings" "$work/written"'
proves "the_setting_that_stands_for_the_facts_is_one" 'echo "$facts" | grep -qx SIMCUDA_FREE_WAITS'

grep -oE '\bsim_[a-z_]+\(' tests/sim/simcuda.h | tr -d '(' >"$work/controls"
grep -oE '`sim_[a-z_]+' $readme | tr -d '`' >"$work/written"
proves "every_control_is_there_and_no_other" 'same_words "$work/controls" "$work/written"'

sed -n 's/^FINDING([a-z_]*, "\([^"]*\)", \([A-Z]*\), "\(.*\)")$/\1 \2 \3/p' tests/sim/driver/finding.def >"$work/findings"
sed -n 's/^| `\([a-z-]*\)` | \(violation\|misuse\|notice\) | \(.*\) |$/\1 \U\2\E \3/p' $readme >"$work/written"
proves "every_finding_is_there_and_no_other" '[ -s "$work/findings" ]' 'same_words "$work/findings" "$work/written"'
finish
