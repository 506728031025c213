#!/bin/bash
# A child of a fork that came at the worst moment: another thread had a lock of the shim in its hands, or was in a call that others wait
# for. The child hangs on nothing, whether or not the shim had begun.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
. tests/integration/shim.sh
[ -z "${SAN:-}" ] || { echo "ok - a_sanitizers_locks_are_its_own"; exit 0; }
program=$programs/fork-in-lock
export FORK_SEEN=$work/seen

for begun in "" begun; do
    for way in retain capture release allocate; do
        native "$program" $way $begun
        keep_native
        rm -f "$work/seen"
        run timeout 300 env NXMEM_REPORT=none LD_PRELOAD="$shim:$here/tests/integration/preload/stopping_lock.so" "$program" $way $begun
        case $way in release) stopped='[ ! -e "$work/seen" ]' ;; *) stopped='[ -e "$work/seen" ]' ;; esac
        proves "a_child_hangs_on_nothing_when_a_thread_is_in_${way}${begun:+_and_the_shim_has_begun}" same_output same_status "$stopped" \
            'prints "= 7"'
    done
done

# The lock of libc's list of exit handlers is another's, and just as bad to be forked with.
program=$programs/fork-in-first-use
for way in after before; do
    native "$program" $way
    keep_native
    run timeout 300 env NXMEM_REPORT=none LD_PRELOAD="$shim:$here/tests/integration/preload/slow_on_exit.so" "$program" $way
    proves "no_child_comes_between_registrations_for_exit_when_its_fork_begins_${way}_first_use" same_output same_status 'prints "= 10"'
done
finish
