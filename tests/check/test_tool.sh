#!/bin/bash
# How nxmem-check behaves as a tool: options, exit status, output, and plugins that crash, hang, end the process or talk.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
. tests/check/verdicts.sh
crooked=$work/crooked.so # nobody else's
cp "$here/tests/check/crooked.so" "$crooked"
check() { run timeout 300 "$check" "$@"; }
with() { local word=$1; shift; run timeout 300 env CROOKED="$word" "$check" "$@"; }

check --list
proves "each_rule_is_listed" 'exits 0' is_silent '[ "$(wc -l <"$work/out")" = "$(grep -c "^RULE(" scripts/nxmem-check/rules.def)" ]'
proves "names_are_unique" '[ -z "$(awk "{ print \$2 }" "$work/out" | sort | uniq -d)" ]'
check --help
proves "help_names_each_option" 'exits 0' is_silent '! grep -q "^.\{80\}" "$work/out"' 'prints --only' 'prints --mechanism' 'prints --timeout' 'prints --json' 'prints --list'
cp "$work/out" "$work/help"
for option in $(grep -oE -- '--[a-z]+' "$work/help" | sort -u); do
    proves "the_manual_names_$option" 'grep -qF -- "${option//-/\\-}" docs/man/nxmem-check.1'
done
check --version
proves "it_knows_its_version" 'exits 0' 'prints "nxmem-check $(cat VERSION)"'

run bash -c '"$@" >/dev/full' - "$PWD/$build/bin/nxmem-check" --only 5.2.1 "$crooked"
proves "a_report_that_cannot_be_written_is_no_verdict" 'exits 2' 'says "could not be written"'
check
proves "a_plugin_is_needed" 'exits 2' says_one_line
check "$crooked" "$crooked"
proves "one_plugin_only" 'exits 2' says_one_line
refused_in_one_line() { exits 2 && prints_nothing && says_one_line && grep -q "^nxmem-check: .*--help" "$work/err"; }
check --unheard-of "$crooked"
proves "an_unknown_option_is_refused" refused_in_one_line 'says "unknown option --unheard-of"'
check -x "$crooked"
proves "and_a_short_one" refused_in_one_line 'says "unknown option -x"'
check "$crooked" --only
proves "an_option_without_its_value_is_refused" refused_in_one_line 'says "option --only needs a value"'
check --json=1 "$crooked"
proves "and_a_value_where_none_goes" refused_in_one_line 'says "option --json takes no value"'
check --only 99.9 "$crooked"
proves "an_unknown_rule_is_refused" 'exits 2' 'says "no rule 99.9"' prints_nothing
check --mechanism nobody "$crooked"
proves "an_unknown_mechanism_is_refused_with_those_there_are" 'exits 2' 'says nobody' 'says crooked' prints_nothing
for seconds in 0 -1 3601 1.5 x ''; do
    check --timeout "$seconds" "$crooked"
    proves "a_timeout_of_'$seconds'_is_refused" 'exits 2' says_one_line prints_nothing
done
check "$work/nobody.so"
proves "a_file_that_is_not_there_is_no_verdict" 'exits 2' 'says nobody.so' prints_nothing
echo text >"$work/text.so"
check "$work/text.so"
proves "nor_is_one_that_is_no_library" 'exits 2' 'says "text.so: not an ELF file"' prints_nothing
no_verdict() { # name, words
    check "$work/bad.so"
    proves "$1" 'exits 2' says_one_line "says 'bad.so: $2'" prints_nothing
}
last=$(readelf -lW "$crooked" | awk '$1 == "LOAD" { end = $2 " + " $5 } END { print end " - 1" }')
for cut in in_its_header=10 in_its_segments_headers=100 before_a_segment=4000 before_its_last_byte=$((last)); do
    head -c "${cut#*=}" "$crooked" >"$work/bad.so"
    no_verdict "nor_one_that_ends_${cut%=*}" truncated
done
cp "$crooked" "$work/bad.so" && printf '\1' | dd of="$work/bad.so" bs=1 seek=4 conv=notrunc status=none
no_verdict nor_one_of_another_word_size "built for another word size"
cp "$crooked" "$work/bad.so" && printf '\377' | dd of="$work/bad.so" bs=1 seek=18 conv=notrunc status=none
no_verdict nor_one_for_another_machine "built for another machine"
rm "$work/bad.so" && mkdir "$work/bad.so"
no_verdict nor_a_folder "it is a folder"
check /dev/null
proves "nor_a_device" 'exits 2' says_one_line 'says "/dev/null: not a regular file"' prints_nothing
check ''
proves "nor_no_name" 'exits 2' says_one_line 'says "nxmem-check: the plugin'"'"'s name is empty"' '! says "No such file"' prints_nothing

rules_tried() { awk '/^  (pass|FAIL|n\/a) / { sub(":$", "", $3); print $2 ":" $3 }' "$work/out" | sort | xargs; }
check --only 15.4 "$crooked"
proves "a_number_is_all_its_rules" 'exits 0' '[ "$(rules_tried)" = "15.4:drain-budget 15.4:drain-empty 15.4:drain-refused 15.4:queue-empties" ]'
check --only agrees --only 11.3 "$crooked"
proves "a_name_is_one_rule" 'exits 0' '[ "$(rules_tried)" = "11.3:not-null 5.2:agrees" ]'
check --mechanism crooked --only agrees --only 11.3 "$crooked"
proves "one_mechanism_is_without_rules_of_the_module" 'exits 0' '[ "$(rules_tried)" = "11.3:not-null" ]'
check --mechanism crooked --only agrees "$crooked"
proves "rules_of_the_module_alone_are_then_nothing_to_try" 'exits 2' says_one_line prints_nothing 'says "nothing to try: --only names rules of the module"'
check --only opens "$here/tests/plugins/fixtures/load/no_mechanisms.so"
proves "nor_are_rules_of_mechanisms_where_there_are_none" 'exits 2' says_one_line prints_nothing 'says "the plugin has none"'
check --only failed-is-live --only no-rule-of-this "$crooked"
proves "a_wrong_rule_beside_a_right_one_is_refused" 'exits 2' prints_nothing 'says "no rule no-rule-of-this"'
check --only failed-is-live "$crooked"
proves "what_was_never_tried_is_no_pass" 'exits 2' 'prints "nothing was tried: 0 passed, 0 failed, 1 not applicable"' says_one_line 'says "no rule was applicable"'
check --json --only failed-is-live "$crooked"
proves "in_json_neither" 'exits 2' 'prints "\"verdict\":\"n/a\""'
(cd "$(dirname "$crooked")" && run timeout 300 "$check" --only agrees "$(basename "$crooked")"; echo "$status" >"$work/status")
proves "a_plugin_is_looked_for_in_the_folder_one_is_in" '[ "$(cat "$work/status")" = 0 ]' 'grep -q "pass  5.2 " "$work/out"'

# --- plugins that do not come back ---
with large-crashes "$crooked"
proves "a_crash_is_a_verdict_with_its_signal_and_slot" 'exits 1' 'prints "FAIL  11.5    allocates: crashes: signal 11" ' 'prints "(last: allocate)"'
proves "and_the_other_rules_are_tried" 'prints "pass  11.4    aligned"' 'prints "pass  18.10   safe-unload"' 'prints " 3 failed,"'
with large-hangs --timeout 1 --only 11.5 --only 11.4 "$crooked"
proves "a_hang_is_a_verdict_with_its_limit" 'exits 1' 'prints "FAIL  11.5    allocates: hangs: no end within 1 s (last: allocate)"' 'prints "pass  11.4"'
with large-exits --only 11.5 --only 11.4 "$crooked"
proves "an_exit_is_a_verdict_with_its_status" 'exits 1' 'prints "FAIL  11.5    allocates: ends the process with status 3 (last: allocate)"' 'prints "pass  11.4"'
with no-such-word "$crooked"
proves "a_crash_at_load_is_one_too" 'exits 1' 'prints "FAIL  7.2     exports: crashes: signal 6"' 'says "mechanisms are not checked"'
with forks-then-crashes --only 11.5 "$crooked"
proves "a_child_of_the_plugin_gives_no_verdict" 'exits 1' 'prints "FAIL  11.5    allocates: crashes: signal 11"'
left() { pgrep -f "$crooked" | wc -l; }
with child-left --only opens "$crooked"
proves "what_a_plugin_started_is_ended" 'exits 0' '[ "$(left)" = 0 ]'
with large-hangs --timeout 1 --only 11.5 "$crooked"
proves "no_process_is_left" '[ "$(left)" = 0 ]'
with child-apart --only opens "$crooked"
proves "nor_what_has_a_session_of_its_own_and_no_parent" 'exits 0' '[ "$(left)" = 0 ]'
with child-apart-hangs --timeout 1 --only 11.5 "$crooked"
proves "nor_that_behind_a_hang" 'exits 1' 'prints "hangs: no end within 1 s"' '[ "$(left)" = 0 ]'

# Ends the tool while a rule hangs, with all of its processes there; 0 when none is left.
becomes() { # number of processes, at least or exactly
    for ((tries = 0; tries < 200; tries++)); do
        [ "$(left)" "$1" "$2" ] && return
        sleep 0.05
    done
    return 1
}
ended_by() { # signal
    env --default-signal=INT CROOKED=child-apart-hangs "$check" --timeout 300 --only 11.5 "$crooked" >/dev/null 2>&1 &
    becomes -ge 4 || return 1 # the tool, the keeper, the rule, and what the plugin left
    kill -"$1" $!
    wait $! 2>/dev/null
    becomes -eq 0
}
for signal in TERM INT KILL; do proves "nor_when_the_tool_is_ended_by_$signal" "ended_by $signal"; done
run timeout 300 env --ignore-signal=CHLD CROOKED=large-exits "$check" --timeout 2 --only 11.5 "$crooked"
proves "a_caller_that_ignores_the_end_of_children_changes_nothing" 'exits 1' 'prints "ends the process with status 3"'

# --- output ---
cat >"$work/chatty.c" <<'C'
#include <stdio.h>
__attribute__((constructor)) static void talk(void) { puts("chatter \033[31m"); fflush(stdout); }
C
${CC:-gcc} -shared -fPIC -o "$work/chatty.so" "$work/chatty.c"
run timeout 300 env LD_LIBRARY_PATH="$work" "$check" --json "$work/chatty.so"
proves "what_a_plugin_prints_is_not_in_the_report" 'exits 1' '! grep -q chatter "$work/out"' 'says chatter' 'python3 -m json.tool "$work/out" >/dev/null'
with speaks-in-lines --only 11.5 "$crooked"
proves "what_a_plugin_says_is_one_line_without_controls" 'exits 1' '[ "$(grep -c . "$work/out")" = 4 ]' 'prints "OUT_OF_MEMORY: no?  pass  11.5    allocates?[2K??2J"' \
    '[ "$(rules_tried)" = "11.5:allocates" ]'
odd=$work/$(printf 'odd\377\n\033[31m')
mkdir "$odd" && cp "$crooked" "$odd/crooked.so"
check --only agrees "$odd/crooked.so"
proves "nor_does_a_path_have_any" 'exits 0' 'prints "odd??"' '[ "$(grep -c . "$work/out")" = 4 ]'
check --json --only agrees "$odd/crooked.so"
cat >"$work/path.py" <<'PY'
import json, sys
report = json.loads(open(sys.argv[1], "rb").read().decode("utf-8"))
assert report["plugin"].endswith("/odd\ufffd\n\x1b[31m/crooked.so"), report["plugin"]
assert report["verdict"] == "pass"
PY
proves "json_of_a_path_that_is_no_text_is_json" 'exits 0' 'python3 "$work/path.py" "$work/out" 2>"$work/err"'
with place-unmeasured --only reused "$crooked"
proves "memory_that_begins_inside_another_block_is_seen" 'exits 1' 'grep -q "70000 bytes at .* share memory" "$work/out"'
with large-crashes --json "$crooked"
cat >"$work/judge.py" <<'PY'
import json, sys
report = json.load(open(sys.argv[1]))
assert report["tool"] == "nxmem-check" and report["plugin"].endswith("crooked.so"), report
results = report["results"]
counts = {verdict: sum(r["verdict"] == verdict for r in results) for verdict in ("pass", "fail", "n/a")}
assert counts["pass"] == report["passed"] > 100 and counts["fail"] == report["failed"] == 3 and counts["n/a"] == report["not_applicable"], counts
assert sum(counts.values()) == len(results) == int(sys.argv[2]), len(results)
assert all(("why" in r) == (r["verdict"] != "pass") for r in results)
failed = [r for r in results if r["verdict"] == "fail"]
assert all(r["mechanism"] == "crooked" and r["tier"] == "host" and r["index"] == 0 and "signal 11" in r["why"] for r in failed), failed
assert results[0]["mechanism"] is None and results[0]["rule"] == "7.2" and results[0]["name"] == "exports", results[0]
PY
proves "json_says_the_same" 'exits 1' is_silent 'python3 "$work/judge.py" "$work/out" "$("$check" --list | wc -l)" 2>"$work/err"'
check --only agrees "$crooked"
proves "a_file_gets_no_colours" '! grep -q "$(printf "\033")" "$work/out"'
on_terminal() { python3 -c 'import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))' "$@"; }
run on_terminal env -u NO_COLOR "$check" --only agrees "$crooked"
proves "a_terminal_gets_colours" 'exits 0' 'grep -q "$(printf "\033")\[32mpass" "$work/out"'
run on_terminal env NO_COLOR=1 "$check" --only agrees "$crooked"
proves "unless_it_does_not_want_them" 'exits 0' 'grep -q "  pass" "$work/out"' '! grep -q "$(printf "\033")\[" "$work/out"'

# --- short names ---
check --only agrees host
proves "a_short_name_is_looked_up_beside_the_shim" 'exits 0' 'prints "lib/nxmem/host.so"'
mkdir "$work/names" && cp "$crooked" "$work/names/host"
(cd "$work/names" && run timeout 300 "$check" --only agrees host; cp "$work/out" "$work/beside"
 run timeout 300 "$check" --only agrees ./host; cp "$work/out" "$work/here")
proves "also_where_a_file_has_it" 'grep -q "lib/nxmem/host.so" "$work/beside"' 'grep -q "names/host" "$work/here"'
check nobody
proves "a_name_that_nobody_has_is_told_with_where_it_was_looked_for" 'exits 2' says_one_line prints_nothing 'says "nxmem/nobody.so"'
check ""
proves "an_empty_name_is_none" 'exits 2' says_one_line prints_nothing 'says "empty"'

# --- devices ---
# No driver anywhere: a plugin that opens all the same is not blamed, nor told of rule by rule.
${CC:-gcc} -shared -fPIC -Iinclude -o "$work/minimal.so" plugins/minimal.c
for plugin in "$work/minimal.so" "$here/lib/nxmem/direct.so"; do
    run timeout 300 env -u LD_LIBRARY_PATH "$check" --only agrees --only opens --only allocates "$plugin"
    proves "without_a_driver_$(basename "$plugin")_gets_one_line_that_says_so" 'exits 2' '[ "$(grep -c "n/a " "$work/out")" = 1 ]' 'prints "(device 0 to 15)"' \
        says_one_line 'says "no CUDA driver"' 'says "LD_LIBRARY_PATH=build/sim"'
done
run timeout 300 "$check" --only opens "$here/lib/nxmem/direct.so"
proves "devices_beyond_those_there_are_get_one_line" 'exits 0' '[ "$(grep -c "n/a " "$work/out")" = 1 ]' 'grep -q "mechanism direct (device [0-9]* to 15)" "$work/out"'
run timeout 300 env LD_LIBRARY_PATH="$here/tests/plugins/fixtures/hollow" "$check" --mechanism direct "$here/lib/nxmem/direct.so"
proves "without_devices_nothing_is_proven" 'exits 2' 'says "no mechanism could be opened"' 'prints "n/a   all"'
finish
