#!/bin/bash
# Asks the machine's own driver what documentation leaves open, and says where it differs from the simulator's default
# (docs/cuda-facts.md). Skips where there is no GPU. Under two minutes.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
export LD_LIBRARY_PATH=${NXMEM_TEST_GPU_LIBRARY_PATH:-} # the machine's driver, not the simulated one
if ! [ -e /dev/nvidiactl ] && ! [ -e /dev/dxg ]; then
    echo "skipped: no GPU (no device node)"
    exit 77
fi
run timeout 110 "$build/tests/gpu/facts/facts"
if [ "$status" = 77 ]; then
    echo "skipped: no driver that answers"
    exit 77
fi
cat "$work/out"
version=$(sed -n 's/^driver: //p' "$work/out")
sed -n 's/^FACT(\([a-z_]*\), *\([0-9]*\), *\([0-9]*\), *\([0-9]*\))/\1 \2 \3 \4/p' tests/sim/driver/facts.def |
    while read -r name since before from; do
        believed=$([ "$version" -lt "$since" ] && echo "$before" || echo "$from")
        seen=$(sed -n "s/^$name: //p" "$work/out")
        [ "$seen" = "$believed" ] || echo "differs from the simulator: $name is $seen, believed $believed"
    done
proves every_question_is_answered_or_says_why_not "exits 0" "[ $(grep -c ': ' "$work/out") -ge 90 ]"
finish
