#!/bin/bash
# A shard of the live-block table, and who reads it without its lock: in every order of its steps, and with one step left out.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
. tests/model/model.sh

try shard "" "-DWANTED=1"
proves "a_lasting_block_is_found_in_every_order_of_steps" "exits 0" holds
try shard "" "-DWANTED=2"
proves "what_is_found_of_a_recycled_record_is_whole_in_every_order_of_steps" "exits 0" holds
try shard "" "-DWANTED=1 -DWRITERS=2 -DOPERATIONS=1"
proves "it_is_so_beside_two_writers" "exits 0" holds
broken "a_reader_that_does_not_look_again_is_caught" shard 's/ || turns != looked -> goto again/ -> goto again/' "-DWANTED=2"
broken "a_reader_that_believes_while_somebody_writes_is_caught" shard 's/(looked & 1) == 1 || //' "-DWANTED=1"
broken "a_writer_that_does_not_count_its_turn_is_caught" shard 's/^        turns++$/        turns--/' "-DWANTED=2"
broken "two_writers_at_once_are_caught" shard 's/^        atomic { turns % 2 == 0 -> turns++ };$/        turns++;/' "-DWANTED=1 -DWRITERS=2 -DOPERATIONS=1"
broken "a_chain_that_loses_a_record_when_it_moves_is_caught" shard 's/^        record = follower$/        record = 0/' "-DWANTED=1"
broken "a_writer_that_believes_what_it_saw_before_it_had_the_lock_is_caught" shard 's/:: seen == grown && !has_old/:: !has_old/' "-DWANTED=2 -DWRITERS=2 -DOPERATIONS=1"

[ $failures = 0 ]
