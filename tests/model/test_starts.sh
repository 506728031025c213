#!/bin/bash
# The bits that say where blocks start: in every order of its steps, and with one step left out.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
. tests/model/model.sh

try starts ""
proves "a_live_block_has_its_bits_in_every_order_of_steps" "exits 0" holds
broken "a_bit_that_is_cleared_without_a_second_look_is_caught" starts '/shard\[at\] = true };/,/:: else/ s/:: !block\[at\] ->/:: true ->/'
broken "a_stretch_that_is_emptied_beside_its_lock_is_caught" starts 's/^                    atomic { !leaf -> leaf = true };$/                    skip;/'
broken "a_stretch_that_is_emptied_with_a_neighbour_is_caught" starts 's/:: !bit_\[0\] \&\& !bit_\[1\] -> reach/:: true -> reach/'
broken "a_block_that_comes_back_to_a_cleared_bit_is_caught" starts '/:: !block\[at\] ->$/,/leaf = true/ s/^                    last_\[at\] = false;$/                    skip;/'

[ $failures = 0 ]
