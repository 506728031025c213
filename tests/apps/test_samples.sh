#!/bin/bash
# Samples of ordinary CUDA programs: each checks its own results, runs to the end on the simulated CUDA without a finding of
# its oracle, and prints the same under the shim.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
. tests/integration/shim.sh
samples=$here/apps/samples
export SIMCUDA_DEVICES=3

names=$(cd tests/apps/samples && ls *.c | sed 's/\.c$//' | grep -vx exchange)
# Programs that can tell the host plugin's memory from a device's: handles for other processes (ipc), a device's capacity
# (until-full), the memory type and device of a pointer (multi-device), what the default pool says it uses and keeps (pools).
not_on_host="ipc until-full multi-device pools"
# Links to what a driver of 12.4 does not export, as a program compiled for a newer CUDA may.
not_on_12_4="contexts"
# By each of these a single-threaded program takes another path through what streams may do.
seeds="1 2 3 4 5"

says_not() { ! says "$1"; }

proves "there_are_samples" '[ "$(echo $names | wc -w)" -ge 12 ]' '[ -x "$samples/static/overlap" ]'
for sample in $names; do
    native "$samples/$sample"
    keep_native
    proves "${sample}_runs_to_the_end" 'exits 0' is_silent '[ -s "$work/out" ]'
    native env SIMCUDA_LEAKS=1 "$samples/$sample"
    proves "${sample}_leaves_nothing_in_the_driver" same_output 'says "no leaks"' 'says_not "leak:"'
    for seed in $seeds; do
        native env SIMCUDA_SEED=$seed "$samples/$sample"
        proves "${sample}_is_the_same_with_seed_$seed" same_output same_status same_errors
    done
    native env SIMCUDA_FREE_WAITS=0 SIMCUDA_RUNTIME_RELEASES=1 "$samples/$sample"
    proves "${sample}_is_the_same_where_frees_do_not_wait_and_the_runtime_releases" same_output same_status same_errors
    shimmed "$samples/$sample"
    proves "${sample}_is_the_same_under_the_shim" same_output same_status same_errors
    for seed in $seeds; do
        shimmed SIMCUDA_SEED=$seed "$samples/$sample"
        proves "${sample}_is_the_same_under_the_shim_with_seed_$seed" same_output same_status same_errors
        shimmed SIMCUDA_SEED=$seed NXMEM_FREE=deferred "$samples/$sample"
        proves "${sample}_is_the_same_with_deferred_frees_and_seed_$seed" same_output same_status same_errors
    done
    shimmed SIMCUDA_FREE_WAITS=0 SIMCUDA_RUNTIME_RELEASES=1 "$samples/$sample"
    proves "${sample}_is_the_same_under_the_shim_by_other_facts" same_output same_status same_errors
    shimmed SIMCUDA_LEAKS=1 "$samples/$sample"
    proves "${sample}_leaves_nothing_in_the_driver_under_the_shim" same_output 'says "no leaks"' 'says_not "leak:"'
    shimmed SIMCUDA_NOTICES=1 NXMEM_FREE=deferred "$samples/$sample"
    proves "${sample}_frees_nothing_twice_or_late_with_deferred_frees" 'says_not "[double-free]"' 'says_not "[bad-free]"' \
        'says_not "[free-after-context]"'
    if [ -x "$samples/static/$sample" ]; then # the program exports no name of CUDA's: hooks of the driver see it all
        native "$samples/static/$sample"
        proves "${sample}_is_the_same_with_a_hidden_runtime" same_output same_status same_errors
        shimmed "$samples/static/$sample"
        proves "${sample}_is_the_same_with_a_hidden_runtime_under_the_shim" same_output same_status same_errors
    fi
    for driver in 12.4 99.0; do
        case " $not_on_12_4 " in *" $sample "*) [ $driver = 12.4 ] && continue ;; esac
        shimmed LD_LIBRARY_PATH="$here/sim/$driver:$LD_LIBRARY_PATH" "$samples/$sample"
        proves "${sample}_is_the_same_under_the_shim_on_driver_$driver" same_output same_status same_errors
    done
    case " $not_on_host " in *" $sample "*) continue ;; esac
    on_host "$samples/$sample"
    proves "${sample}_is_the_same_with_host_memory" same_output same_status same_errors
done

# What a runtime that releases its contexts at the end takes with it is still what the program leaked.
json SIMCUDA_RUNTIME_RELEASES=1 "$here/apps/demo"
proves "a_leak_is_a_leak_where_the_runtime_releases_its_contexts" 'exits 0' is_silent 'amount_is leaked 2 2100224'
finish
