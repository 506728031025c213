#!/bin/bash
# Nothing of core is left at exit but the callback tables that were leaked on purpose, and those are as many as the counters
# say: what valgrind finds, against what test_exit prints.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
run valgrind --leak-check=full --show-leak-kinds=all --errors-for-leak-kinds=definite,indirect --error-exitcode=99 \
    --num-callers=20 "$build/tests/unit/test_exit"

# A line for each place in core that blocks at the end come from: BLOCKS FUNCTION. The door of core/mem is no place.
awk '
    / in loss record / { blocks = 0; if (match($0, /[0-9,]+ blocks? (are|is) /)) { blocks = substr($0, RSTART, RLENGTH); gsub(/[^0-9]/, "", blocks) } }
    blocks && match($0, /(at|by) 0x[0-9A-F]+: [a-z_0-9]+ \([a-z_]+\.c:/) {
        split(substr($0, RSTART, RLENGTH), part, /[ (]+/)
        file = part[4]; sub(/:$/, "", file)
        if (file == "mem.c" || file == "vg_replace_malloc.c") next
        if (system("test -e core/" file) == 0) print blocks, part[3]
        blocks = 0 # what the plugin asked for is its own
    }' "$work/err" | awk '{ sum[$2] += $1 } END { for (place in sum) print sum[place], place }' | sort -k2 >"$work/left"

left() { awk -v place="$1" '$2 == place { print $1 }' "$work/left"; }
said() { sed -n "s/.*$1 \([0-9]*\).*/\1/p" "$work/err" | head -n 1; }

proves "valgrind finds no error and nothing that is out of reach" 'exits 0'
proves "as many tables are left as were leaked and not reclaimed" '[ "$(said tables)" = 3 ]' '[ "$(left record_new)" = "$(said tables)" ]'
proves "the module that they keep is left, by its record and its path" '[ "$(left module_new)" = $((2 * $(said modules))) ]'
proves "nothing else is, but what is queued in those tables" \
    '[ "$(awk "{ print \$2 }" "$work/left" | paste -sd " ")" = "find_entry module_new record_new" ]'
finish
