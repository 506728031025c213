#!/bin/bash
# The prebuilt llama.cpp of CUDA 13 and of CUDA 12 and whisper.cpp of CUDA 12 run to their end on the simulated device, their memory takes every road
# that it takes on a real one, and what they dispose of is given back to the driver. From the top of the tree; BUILD says
# where it was built.
set -u

build=${BUILD:-build}
node=${NODE:-$(scripts/find-node)}
out=$build/llama
failures=0

# proves NAME COMMAND…
proves() {
    local name=$1
    shift
    if "$@"; then
        echo "ok - $name"
    else
        echo "not ok - $name"
        failures=$((failures + 1))
    fi
}

# run NAME SCRIPT ARGUMENT…: native, with the driver's log in $out/NAME.log and its tally in $out/NAME.traffic
run() {
    local name=$1
    shift
    rm -f "$out/$name.log" "$out/$name.traffic"
    if ! LD_LIBRARY_PATH=$build/sim SIMCUDA_LOG=$out/$name.log timeout 300 \
        "$node" "$@" "$build/npm" "$model" >"$out/$name.out" 2>&1; then
        tail -n 20 "$out/$name.out" | sed 's/^/    /'
        return 1
    fi
    tests/sim/traffic "$out/$name.log" >"$out/$name.traffic"
}

# at_least NAME CLASS COLUMN NUMBER, exactly …: columns of the tally are 2 calls, 3 bytes, 4 live calls, 5 live bytes
column() {
    awk -v class="$2" -v column="$3" '$1 == class { found = 1; print $column } END { if (!found) print 0 }' \
        "$out/$1.traffic"
}

at_least() {
    local found
    found=$(column "$1" "$2" "$3")
    [ "${found:-0}" -ge "$4" ] || { echo "    $2 is $found, less than $4"; return 1; }
}

nothing_live() {
    awk '$4 != 0 { print "    live: " $0; bad = 1 } END { exit bad || NR == 0 }' "$out/$1.traffic"
}

handles_go_after_mapping() {
    at_least "$1" mapped 4 1 && [ "$(column "$1" created 4)" -eq 0 ]
}

# The oracle has nothing to say, whatever the interleaving, and the driver keeps nothing.
blameless() { # name, seed, script
    LD_LIBRARY_PATH=$build/sim SIMCUDA_SEED=$2 SIMCUDA_LEAKS=1 timeout 300 \
        "$node" "$3" "$build/npm" "$model" >"$out/$1.out" 2>&1 || return 1
    [ "$(grep 'simcuda:' "$out/$1.out")" = "simcuda: no leaks" ] || { grep 'simcuda:' "$out/$1.out" | head -n 10; return 1; }
}

for program in llama_13:run-llama.mjs:tiny.gguf llama_12:run-llama-12.cjs:tiny.gguf whisper:run-whisper.cjs:tiny.whisper; do
    IFS=: read -r name script model <<<"$program"
    script=tests/llama/$script model=$out/$model
    proves "${name}_does_its_work" run $name $script
    proves "${name}_takes_weights_kv_cache_and_compute_buffer" at_least $name device 2 3
    [ $name = whisper ] || proves "${name}_takes_pinned_buffers" at_least $name pinned 2 2
    proves "${name}_reserves_32_gib_for_its_pool" at_least $name reserved 3 $((32 << 30))
    proves "${name}_creates_and_maps_its_pool" at_least $name mapped 2 1
    proves "${name}_disposes_of_everything" nothing_live $name
    for seed in 1 2 3; do
        proves "${name}_is_blameless_with_seed_$seed" blameless ${name}_seed $seed $script
    done
    proves "${name}_runs_without_disposing" run ${name}_leak $script --leak
    proves "${name}_leaves_the_model_then" at_least ${name}_leak device 4 3
    proves "${name}_releases_handles_once_mapped" handles_go_after_mapping ${name}_leak
done
[ $failures -eq 0 ]
