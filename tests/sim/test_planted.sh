#!/bin/bash
# Every planted fault is caught and no correct twin accused, under 1,000 seeds (100 with a sanitizer) in at most a
# minute, or under PLANTED_SEEDS of them without limit. The table says which.
set -u
cd "$(dirname "$0")/../.." || exit 1
runner=${BUILD:-build}/tests/sim/planted/runner
if [ -n "${PLANTED_SEEDS:-}" ]; then
    "$runner" --seeds "$PLANTED_SEEDS"
else
    "$runner" --seeds "$([ -n "${SAN:-}" ] && echo 100 || echo 1000)" --seconds 60
fi
