#!/bin/bash
# What a call stack costs, in instructions, which are counted and not timed: ours beside glibc's backtrace in the same program. Start and
# end cancel out.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
[ -z "${SAN:-}" ] || { echo "ok - nothing_to_count_under_a_sanitizer"; exit 0; }
bench=$build/tests/bench/bench_stack

instructions() { # what, depth, count
    valgrind --tool=callgrind --callgrind-out-file=/dev/null "$bench" "$@" 2>&1 | sed -n 's/.*Collected : //p'
}
once() { # what, depth
    local few many
    few=$(instructions "$1" "$2" 200) many=$(instructions "$1" "$2" 5200) # so many that a start of another length does not show
    echo $(((${many:-0} - ${few:-0}) / 5000))
}

# Where the stack begins within its page, which the size of the environment decides, shows when a walk ends just beyond one: the
# least of two beginnings.
each() { # what, depth
    local here there
    here=$(once "$@") there=$(AWAY=$(printf '%1024s' x) once "$@")
    echo $((here < there ? here : there))
}

libc=$(once libc 16) capture=$(each capture 16) walk8=$(each walk 8) walk16=$(each walk 16) walk32=$(each walk 32) intern=$(each intern 16)
echo "16 frames: libc $libc, capture $capture, walk $walk16, intern $intern; 8: walk $walk8; 32: walk $walk32" | tee "$work/out"
proves "glibc_s_backtrace_was_counted" '[ "$libc" -gt 3000 ]'
proves "sixteen_frames_cost_a_tenth_of_glibc_s_backtrace" '[ "$capture" -gt 100 ]' '[ $((capture * 10)) -le "$libc" ]'
proves "sixteen_frames_walked_and_interned_stay_within_their_bound" '[ "$capture" -le 1500 ]'
proves "a_frame_costs_some_forty_instructions" '[ $((walk32 - walk16)) -le $((16 * 48)) ]' '[ $((walk32 - walk16)) -gt 160 ]'
proves "an_old_stack_is_found_in_a_few_hundred_instructions" '[ "$intern" -gt 20 ]' '[ "$intern" -le 260 ]'

# Nothing that takes long: a thousand captures make no more system calls than ten, and no more requests to malloc.
calls() { strace -f -o "$work/calls.$1" "$bench" capture 16 "$1" 2>/dev/null; wc -l <"$work/calls.$1"; }
few=$(calls 10) many=$(calls 1000) # where the stack lies, and so how many pages it has, differs from run to run
proves "a_capture_makes_no_system_call" '[ "$few" -gt 10 ]' '[ $((many - few)) -lt 60 ]'
allocations() { valgrind --tool=memcheck "$bench" capture 16 "$1" 2>&1 | sed -n 's/.*total heap usage: \([0-9,]*\) allocs.*/\1/p'; }
proves "a_capture_asks_malloc_for_nothing" '[ -n "$(allocations 10)" ]' '[ "$(allocations 10)" = "$(allocations 1000)" ]'
finish
