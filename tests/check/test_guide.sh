#!/bin/bash
# The commands of the plugin guide work as they stand, from the top of the tree.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
top=$PWD
mkdir "$work/tree"
for entry in include plugins scripts docs VERSION; do ln -s "$top/$entry" "$work/tree/$entry"; done
ln -s "$top/$build" "$work/tree/build"

sed -n '/<!-- commands: begin/,/<!-- commands: end/s/^    //p' docs/plugin-guide.md >"$work/commands"
proves "there_are_commands_to_run" '[ "$(wc -l <"$work/commands")" -ge 7 ]'
proves "each_begin_has_its_end" '[ "$(grep -c "commands: begin" docs/plugin-guide.md)" = "$(grep -c "commands: end" docs/plugin-guide.md)" ]'
cd "$work/tree" || exit 1
while read -r command; do
    run timeout 300 env -u LD_LIBRARY_PATH NXMEM_REPORT="$work/report" bash -c "$command"
    proves "$command" 'exits 0' is_silent
    case $command in
    nm*) proves "it_exports_the_three_names_only" '[ "$(awk "{ print \$3 }" "$work/out" | sort | xargs)" = "NxmemCreateAllocatorFactories NxmemNegotiate NxmemQueryUnloadReadiness" ]' ;;
    *nxmem-check\ ./queued.so) proves "its_queue_passes" 'prints ", 0 failed,"' 'grep -q "pass  15.4 .*budget" "$work/out"' ;;
    *nxmem-check*) proves "it_passes" 'prints ", 0 failed,"' 'grep -q "pass  12.2 " "$work/out"' ;;
    *apps/demo) proves "the_demo_ran_on_it" 'grep -q "plugin .*mine.so, mechanism minimal" "$work/report"' ;;
    esac
done <"$work/commands"
finish
