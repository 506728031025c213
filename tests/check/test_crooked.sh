#!/bin/bash
# For each thing that the crooked plugin can do wrong exactly the rules that speak of it fail; honest, it keeps all.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
. tests/check/verdicts.sh
crooked=$here/tests/check/crooked.so

sed -nE 's/^CROOK\([A-Z_0-9]+, "([^"]+)", "([^"]*)", ".*"\)$/\1 \2/p' tests/check/crooked/crooked.def >"$work/table"
proves "every_row_is_read" '[ "$(wc -l <"$work/table")" = "$(grep -c "^CROOK(" tests/check/crooked/crooked.def)" ]'
while read -r word _; do
    limit=8
    case $word in *-hangs) limit=2 ;; esac # each of its rules takes it all
    begin_row "$word" env CROOKED="$word" "$check" --timeout $limit "$crooked"
done <"$work/table"
wait
# shellcheck disable=SC2086 # one word a rule
while read -r word rules; do
    proves "$word" "fails_as $word $rules" "ended_as $word"
done <"$work/table"

# The other way round: a rule that no fault here fails would not be missed if it went.
cut -d ' ' -f 2- "$work/table" | tr ' ' '\n' | grep -v '?$' | sort -u >"$work/covered"
sed 's/#.*//' tests/check/expected | tr ' ' '\n' | grep ':' | sort -u >>"$work/covered"
"$check" --list | awk '{ print $1 ":" $2 }' | while read -r rule; do grep -qxF "$rule" "$work/covered" || echo "$rule"; done >"$work/out"
proves "every_rule_is_failed_by_somebody" prints_nothing
finish
