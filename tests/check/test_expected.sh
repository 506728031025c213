#!/bin/bash
# The misbehaving plugins that need a driver, and those that a loader refuses, are each failed for their own reason; the
# plugins that are installed are not failed at all.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
. tests/check/verdicts.sh

named_faults() { sed -nE 's/^FAULT\([A-Z_0-9]+, [A-Z]+, "([^"]+)".*/\1/p' plugins/faulty/faults.def; echo faulty; }
named_load_faults() { sed -nE 's/^LOAD_FAULT\(([a-z0-9_]+),.*/\1/p' tests/plugins/fixtures/load_faults.def; }
proves "every_faulty_mechanism_has_a_row" 'named_faults | have_rows faulty'
proves "every_load_fault_has_a_row" 'named_load_faults | have_rows load'

begin_rows_of faulty "$here/tests/plugins/faulty.so"
module_rules=$("$check" --list | awk '$2 == "opens" { exit } { printf "--only %s ", $2 }')
# shellcheck disable=SC2086
while read -r _ fault _; do
    begin_row "load-$fault" "$check" $module_rules "$here/tests/plugins/fixtures/load/$fault.so"
done < <(rows_of load)
begin_row host "$check" "$here/lib/nxmem/host.so"
begin_row host-with-a-limit env NXMEM_HOST_LIMIT=100000000 "$check" "$here/lib/nxmem/host.so"
begin_row direct "$check" "$here/lib/nxmem/direct.so"
begin_row vmm "$check" "$here/lib/nxmem/vmm.so"
wait
judge_rows_of faulty
judge_rows_of load

rules=$("$check" --list | wc -l)
every_rule_is_told() { [ "$(grep -cE '^  (pass|n/a) ' "$work/rows/$1.out")" -ge "$rules" ]; }
for plugin in host host-with-a-limit direct vmm; do
    proves "${plugin} keeps every rule" "fails_as $plugin" "ended_as $plugin" "every_rule_is_told $plugin"
done
is_tried() { grep -q "^  pass .* $2\$" "$work/rows/$1.out"; }
proves "with a limit the host is asked to reclaim" 'is_tried host-with-a-limit reclaim-refused' 'is_tried host-with-a-limit reclaim-lock'
proves "devices that are not there are not judged" '[ "$(grep -c "n/a   all" "$work/rows/direct.out")" -ge 1 ]'
finish
