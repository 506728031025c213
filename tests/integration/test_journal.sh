#!/bin/bash
# The journal: the report of a process that was killed is the one it would have written.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
. tests/integration/shim.sh
tool=$here/bin/nxmem-report
program=$programs/killed
journal=$work/journal
size=NXMEM_JOURNAL_SIZE=64

read_journal() { run timeout 300 "$tool" --format "$1" "$journal"; }
# The report without addresses, and without what tells the two apart on purpose: how the process ended.
lasting() { grep -v '"gate"\|"host":\|"plugin":\|"note"\|"pid"\|"pc":' "$1" | sed 's/"address": [0-9]*//'; }
same_report() { diff <(lasting "$work/by-itself") <(lasting "$work/out") >"$work/err"; }
no_file() { [ ! -e "$journal" ]; }
leaks() { grep -qF "\"leaked\": {\"blocks\": $1, \"bytes\": $2}" "$work/out"; }

native "$program" end
keep_native
for mode in "" "NXMEM_FREE=deferred" "NXMEM_PLUGIN=host NXMEM_HOST_AS_DEVICE=1 SIMCUDA_HOST_MEMORY=1"; do
    label=${mode:+_with_${mode%% *}}
    rm -f "$journal"
    # shellcheck disable=SC2086
    json $mode NXMEM_JOURNAL="$journal" $size "$program" end
    proves "a_journal_changes_nothing$label" same_output same_status is_silent 'amount_is leaked 3 4500' '[ -s "$journal" ]'
    cp "$work/report" "$work/by-itself"
    read_journal json
    proves "the_journal_of_a_process_that_ended_in_order_is_its_report$label" 'exits 0' is_silent 'cmp -s "$work/by-itself" "$work/out"'
    for way in kill abort segv _exit; do
        rm -f "$journal"
        # shellcheck disable=SC2086
        shimmed $mode NXMEM_JOURNAL="$journal" $size "$program" $way
        proves "${way}_leaves_no_report$label" same_output '[ "$status" != 0 ]' has_no_report
        read_journal json
        proves "${way}_leaves_the_report_in_the_journal$label" 'exits 0' is_silent same_report 'leaks 3 4500' \
            'grep -q "the process ended without a report" "$work/out"'
    done
    rm -f "$journal"
    # shellcheck disable=SC2086
    shimmed $mode OLD_KERNEL=1 NXMEM_JOURNAL="$journal" $size "$program" _exit
    read_journal json
    proves "children_are_told_apart_where_no_page_is_wiped_on_a_fork$label" 'exits 0' same_report 'leaks 3 4500'
done
read_journal text
proves "the_text_says_how_the_process_ended" 'exits 0' 'prints "LEAK: 3 blocks"' 'prints "MISUSE: free of"' 'prints "main"' \
    'prints "not asked: only an orderly exit asks"' 'prints "from a journal: the process ended without a report"'
run "$tool" --output "$work/written" "$journal"
proves "a_report_goes_to_a_file" 'exits 0' prints_nothing 'grep -q "^LEAK: 3 blocks" "$work/written"'
printf 'leak:killed\n' >"$work/known"
run "$tool" --suppressions "$work/known" "$journal"
proves "known_leaks_are_left_out" 'exits 0' 'prints "no leaks"' 'prints "suppressed "'

# Names that nobody here knows, files that are out of sight, and the driver's word on memory are in it too.
cases=$here/tests/cases/programs
is_its_report() { # the process's own counters are not kept
    diff <(grep -v '"counters"' "$work/by-itself") <(grep -v '"counters"' "$work/out") >"$work/err"
}
keep() { # the report aside, and read the journal
    cp "$work/report" "$work/by-itself"
    read_journal json
}
rm -f "$journal"
LD_LIBRARY_PATH=$here/sim/99.0:$LD_LIBRARY_PATH json NXMEM_JOURNAL="$journal" $size "$cases/by-name-and-version"
keep
proves "unknown_names_are_in_the_journal" 'exits 0' is_silent is_its_report 'grep -q "unknown_names.*cuMemFree (version 99000)" "$work/out"'
if [ -z "${SAN:-}" ]; then
    rm -f "$journal"
    json NXMEM_JOURNAL="$journal" $size "$programs/out-of-sight" namespace "$here/sim/libcudart.so.13"
    keep
    proves "uncovered_files_are_in_the_journal" 'exits 0' is_silent is_its_report 'grep -q "uncovered.*libcudart.so.13 (a namespace of its own)" "$work/out"'
fi
rm -f "$journal"
json NXMEM_JOURNAL="$journal" $size SIMCUDA_CONTEXT_OVERHEAD=300M "$cases/memory-beside"
keep
proves "the_drivers_word_on_memory_is_in_the_journal" 'exits 0' is_silent is_its_report 'grep -q "unexplained\": 314572800" "$work/out"'

# Files: an earlier journal is replaced, and its process keeps what it has; anything else is left alone.
shimmed NXMEM_JOURNAL="$journal" $size "$program" end
proves "an_earlier_journal_is_replaced" same_output is_silent
printf "%01000d" 7 >"$work/precious"
cp "$work/precious" "$work/its-copy"
is_untouched() { cmp -s "$work/precious" "$work/its-copy"; }
shimmed NXMEM_JOURNAL="$work/precious" "$program" end
proves "what_is_no_journal_is_left_alone" same_output same_status says_one_line 'says "is there and is no journal"' is_untouched
ln -s "$work/precious" "$work/link"
shimmed NXMEM_JOURNAL="$work/link" "$program" end
proves "a_link_is_left_alone" same_output same_status says_one_line is_untouched
shimmed NXMEM_JOURNAL=/dev/null "$program" end
proves "a_device_is_left_alone" same_output same_status says_one_line '[ -c /dev/null ]'
shimmed NXMEM_JOURNAL="$journal" $size NXMEM_REPORT="$journal" "$program" end
proves "a_report_goes_over_no_journal_of_its_process" same_output same_status 'says "is a journal, which a process may be writing; it goes to standard error"' \
    'says "LEAK: 3 blocks"'
read_journal text
proves "which_is_whole" 'exits 0' 'prints "LEAK: 3 blocks"'
cp --sparse=always "$journal" "$work/another"
shimmed NXMEM_REPORT="$work/another" "$program" end
proves "nor_over_that_of_another" same_output same_status 'says "is a journal"' 'cmp -s "$journal" "$work/another"'
run "$tool" --output "$work/another" "$journal"
proves "nor_does_one_from_a_journal" 'exits 2' prints_nothing says_one_line 'says "is another journal"' 'cmp -s "$journal" "$work/another"'
shimmed NXMEM_JOURNAL="$work/no/such/folder/j" "$program" end
proves "a_journal_that_cannot_be_made_is_said_so" same_output same_status says_one_line 'says "No such file or directory"' has_report
rm -f "$journal"
shimmed NXMEM_JOURNAL="$work/%e.%p" $size "$program" end
proves "names_hold_program_and_process" 'ls "$work"/killed.[0-9]*'
run bash -c 'ulimit -f 900000; exec timeout 300 env SIMCUDA_MEMORY=64M NXMEM_REPORT="$1/report" LD_PRELOAD="$2" NXMEM_JOURNAL="$1/limited" "$3" end' - "$work" "$preload" "$program"
proves "a_file_that_may_not_grow_is_no_journal" same_output same_status says_one_line 'says "File too large"' '[ ! -e "$work/limited" ]'
shimmed NXMEM_JOURNAL="$journal" NXMEM_JOURNAL_SIZE=16 NXMEM_STACKS=0 "$program" kill
read_journal text
proves "a_small_journal_holds_what_it_can" 'exits 0' 'prints "LEAK: 3 blocks"'

# One that is full says so, and tells what is in it; what is no record takes no room.
rm -f "$journal"
shimmed NXMEM_JOURNAL="$journal" NXMEM_JOURNAL_SIZE=16 "$programs/many" 0 150000
proves "a_full_journal_is_not_the_programs_business" 'exits 0' is_silent
read_journal text
proves "a_full_journal_tells_what_is_in_it" 'exits 0' 'prints "LEAK: "' 'prints "the journal was full"' is_silent
rm -f "$journal"
shimmed NXMEM_JOURNAL="$journal" "$programs/many" 1 1
alone=$(du -k "$journal" | cut -f1)
rm -f "$journal"
shimmed NXMEM_JOURNAL="$journal" "$programs/many" 3000 1
proves "looking_names_up_takes_no_room" 'exits 0' '[ "$(du -k "$journal" | cut -f1)" -le $((alone + 64)) ]'
run "$tool" --suppressions "$work/none/there" "$journal"
proves "suppressions_that_are_not_there_are_named" 'exits 2' says_one_line 'says "none/there: No such file"'

# Programs that close what they did not open, or have no standard streams.
rm -f "$journal"
run bash -c 'exec timeout 300 env NXMEM_REPORT="$1/report" LD_PRELOAD="$2" NXMEM_JOURNAL="$3" NXMEM_JOURNAL_SIZE=64 "$4" "$1/data"' \
    - "$work" "$preload" "$journal" "$programs/closes-all"
proves "a_journal_is_no_standard_stream_and_no_file_of_the_programs" 'exits 0' '[ "$(wc -c <"$work/data")" = 65536 ]' \
    '[ "$(tr -d x <"$work/data" | wc -c)" = 0 ]'
read_journal text
proves "its_journal_is_whole" 'exits 0' 'prints "LEAK: 150001 blocks"'
run "$tool" --output "$journal" "$journal"
proves "a_report_does_not_go_over_its_journal" 'exits 2' says_one_line 'says "the journal itself"'

# A bad journal.
cp --sparse=always "$journal" "$work/good"
bad() { # name, what it says
    run timeout 300 "$tool" "$work/bad"
    proves "$1" 'exits 2' says_one_line "says \"$2\"" prints_nothing
}
: >"$work/bad"
bad "an_empty_file_is_no_journal" "no journal"
echo something else entirely >"$work/bad"
bad "a_text_is_no_journal" "no journal"
head -c 200000 "$work/good" >"$work/bad"
bad "a_journal_that_is_cut_short_is_said_so" "cut short"
cp --sparse=always "$work/good" "$work/bad"
printf 'XX' | dd of="$work/bad" bs=1 seek=64 conv=notrunc status=none
bad "a_journal_of_another_build_is_said_so" "nxmem-report of that one"
rm -f "$work/bad"
bad "a_journal_that_is_not_there_is_said_so" "No such file"
cp --sparse=always "$work/good" "$work/bad"
head -c 1000000 /dev/zero | tr '\0' '\377' | dd of="$work/bad" bs=4096 seek=1 conv=notrunc status=none
run timeout 300 "$tool" "$work/bad"
# Its reader ends by whatever it meets, which a sanitizer tells at length.
one_line=says_one_line
[ -z "${SAN:-}" ] || one_line=true
proves "a_journal_that_is_damaged_inside_has_a_status_of_its_own" 'exits 1' "$one_line" 'says "the journal is damaged"' prints_nothing
survived=0
for seed in $(seq ${NXMEM_TEST_SEEDS:-12}); do
    cp --sparse=always "$work/good" "$work/bad"
    python3 - "$work/bad" "$seed" <<'PYTHON'
import os, random, sys
random.seed(int(sys.argv[2]))
with open(sys.argv[1], "r+b") as f:
    data = bytearray(f.read(4 << 20))
    for _ in range(200):
        at = random.randrange(80, len(data))
        data[at] = random.randrange(256)
    f.seek(0)
    f.write(data)
PYTHON
    run timeout 300 "$tool" "$work/bad"
    { [ "$status" -le 2 ] && { [ -n "${SAN:-}" ] || ! grep -qv '^nxmem' "$work/err"; }; } && survived=$((survived + 1))
done
proves "a_damaged_journal_ends_no_reader" '[ $survived = '${NXMEM_TEST_SEEDS:-12}' ]'

# The tool itself.
run "$tool" --help
proves "help_is_printed" 'exits 0' 'prints "Usage: nxmem-report"' is_silent '! grep -q "^.\{80\}" "$work/out"'
run "$tool" --version
proves "the_version_is_printed" 'exits 0' "prints \"nxmem-report $(cat VERSION)\""
run "$tool"
proves "a_journal_must_be_named" 'exits 2' says_one_line
for wrong in "--frmat json x" "-x x" "x --format" "--help=1 x" "x -o"; do
    # shellcheck disable=SC2086 # words
    run "$tool" $wrong
    proves "'${wrong}'_is_refused_in_our_words" 'exits 2' prints_nothing says_one_line 'grep -q "^nxmem-report: .*--help" "$work/err"'
done
run "$tool" --format yaml x
proves "a_format_that_is_none_is_refused" 'exits 2' says_one_line 'says "text or json"'
run "$tool" --suppressions "$work/none" "$work/good"
proves "suppressions_that_are_not_there_are_said_so" 'exits 2'
run bash -c '"$0" "$1" >/dev/full' "$tool" "$work/good"
proves "a_report_that_cannot_be_written_is_an_error" 'exits 2' says_one_line
finish
