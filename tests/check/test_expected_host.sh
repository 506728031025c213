#!/bin/bash
# The test plugin's mechanisms that keep the rules pass whole, and what misbehaves over host memory is failed for its own
# reason.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
. tests/check/verdicts.sh

named_faults() { sed -nE 's/^FAULT\([A-Z_0-9]+, [A-Z |]+, "([^"]+)".*/\1/p' plugins/faulty/host/faults.def; }
named_mechanisms() { "$check" --only opens "$here/tests/plugins/testplugin.so" | sed -nE 's/^mechanism (\S+) .*/\1/p'; }
proves "every_faulty_mechanism_has_a_row" 'named_faults | have_rows faulty_host'
proves "every_mechanism_of_the_test_plugin_has_a_row" '[ "$(named_mechanisms | wc -l)" = 19 ]' 'named_mechanisms | have_rows testplugin'

begin_rows_of testplugin "$here/tests/plugins/testplugin.so"
begin_rows_of faulty_host "$here/tests/plugins/faulty_host.so"
wait
judge_rows_of testplugin
judge_rows_of faulty_host

# What every capability has to be tried on passes, and was tried.
is_tried() { grep -q "^  pass .* $1\$" "$work/rows/testplugin-lazy.out"; }
for rule in estimate view-after-handle handle-after-view view-ends-queued queue-threads drain-refused safe-unload; do
    proves "$rule is tried on lazy" "is_tried $rule"
done
finish
