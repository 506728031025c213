#!/bin/bash
# What a redirected pair costs is counted, and does not grow unnoticed: instructions of the shim and of libc on its behalf, without
# those of the program, the driver and the plugin. The bound is what there is today and a little more; what is owed
# in the end is what scripts/bench prints beside it.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
[ -z "${SAN:-}" ] || { echo "ok - nothing_to_count_under_a_sanitizer"; exit 0; }
run env BUILD="$build" scripts/bench --counts --json "$work/figures"
cat "$work/out"

measured() { sed -n "s/.*\"name\": \"$1\", \"measured\": \([0-9]*\).*/\1/p" "$work/figures"; }
within() { [ -n "$1" ] && [ "$1" -gt 0 ] && [ "$1" -le "$2" ]; }

proves a_redirected_pair_costs_no_more_than_it_did 'within "$(measured "a redirected pair, no stacks: instructions over the plugin")" 350'
proves a_stream_ordered_pair_costs_no_more_than_it_did 'within "$(measured "the same, stream-ordered")" 1470'
proves a_pair_of_direct_costs_no_more_than_it_did 'within "$(measured "the same with the plugin direct, which calls the driver")" 1030'
proves hooks_with_nothing_to_do_cost_no_more_than_is_owed 'within "$(measured "a pair of hooks with nothing to do: a stream is asked and waited for")" 10'
finish
