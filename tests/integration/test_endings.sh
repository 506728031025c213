#!/bin/bash
# Processes that end or fork in the middle of things: nothing hangs, what they print is the driver's, the report appears once.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
. tests/integration/shim.sh
program=$programs/endings
# ThreadSanitizer has opinions of its own on threads that are not waited for at the end, and hangs in forks of busy ones.
forks="threads-fork first-use-fork"
[ "${SAN:-}" != tsan ] || forks="" TSAN_OPTIONS="${TSAN_OPTIONS:-}:report_thread_leaks=0"
export TSAN_OPTIONS
faulty=$here/tests/plugins/faulty.so

one_report() { [ "$(number_of_reports)" = 1 ]; }
ends_so_with() { # plugin, environment…
    local plugin=$1
    shift
    rm -f "$work"/report*
    run timeout 300 env NXMEM_REPORT="$work/report.%p" LD_PRELOAD="$preload" "$@" "$program" "$way"
    proves "${way}_ends_the_same_with_$plugin" same_output same_status "${quiet:-is_silent}" "${reported:-one_report}"
}
with_each() {
    native "$program" "$way"
    keep_native
    ends_so_with direct NXMEM_FREE=sync
    ends_so_with deferred_frees NXMEM_FREE=deferred
    ends_so_with host NXMEM_PLUGIN=host NXMEM_HOST_AS_DEVICE=1 SIMCUDA_HOST_MEMORY=1
    ends_so_with driver_memory NXMEM_PLUGIN="$faulty" NXMEM_MECHANISM=faulty NXMEM_FAULTY=sound
}

for way in early-tidy late-tidy quick-tidy deinitialised deinitialised-free blocked thread-exit spawn $forks; do
    with_each
done

# Threads that allocate while the driver goes are told so, and the shim may say it.
quiet=true
for way in threads-return threads-exit threads-_exit threads-quick threads-main-ends; do
    with_each
done

# In a handler that interrupts an allocation there is no report to be had; what counts is that the process ends.
reported=true
for i in 1 2 3 4 5 6; do
    way=signal
    with_each
done

# A device reset under running allocations is luck natively too: it ends, and serves again.
way=reset
native "$program" reset
keep_native
ends_so_with direct
ends_so_with host NXMEM_PLUGIN=host NXMEM_HOST_AS_DEVICE=1 SIMCUDA_HOST_MEMORY=1
finish
