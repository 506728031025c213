#!/bin/bash
# nxrun's command line: every option of the table is accepted, checked, and reaches the shim as its variable.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
nxrun=$build/bin/nxrun
export NXMEM_REPORT=none

run "$nxrun" --help
proves "help succeeds on standard output" 'exits 0' is_silent 'prints "Usage: nxrun"'
rows=$(grep -c '^OPTION(' core/options.def)
proves "help has one line for each row of the option table" \
    '[ "$(grep -c "^  --" "$work/out")" = $((rows + 2)) ]'
proves "help fits a terminal of 80 columns" '! grep -q "^.\{80\}" "$work/out"'

sed -n 's/^OPTION(\([a-z_]*\), \([A-Z]*\), "\([A-Z_]*\)", "[^"]*", "\([^"]*\)".*/\1 \2 \3 \4/p' core/options.def >"$work/rows"
proves "the table was read" '[ "$(wc -l <"$work/rows")" = "$rows" ]'
while read -r field type variable values; do
    option=--$(echo "$field" | tr _ -)
    case $field.$type in
    plugin.*) value=direct ;;
    mechanism.*) value=direct ;;
    suppressions.*) : >"$work/list" && value=$work/list ;;
    journal.*) value=$work/journal ;;
    *.TEXT) value=none ;;
    *.COUNT) value=${values#*..} ;;
    *.CHOICE) value=${values##*|} ;;
    esac
    run "$nxrun" "$option=$value" -- env
    proves "$option=VALUE reaches the program as $variable" 'exits 0' 'grep -qxF "$variable=$value" "$work/out"'
    [ "$field" = verbose ] && continue
    if [ "$field" != coverage ]; then
        run "$nxrun" "$option" "$value" env
        proves "$option VALUE means the same" 'exits 0' 'grep -qxF "$variable=$value" "$work/out"'
    fi
    case $type in
    COUNT)
        for bad in $((${values#*..} + 1)) -1 1x '' 99999999999999999999; do
            run "$nxrun" "$option=$bad" env
            proves "$option=\"$bad\" is refused, naming what is accepted" 'exits 2' prints_nothing 'says "$values"'
        done
        ;;
    CHOICE)
        for bad in nonsense '' "$values"; do
            run "$nxrun" "$option=$bad" env
            proves "$option=\"$bad\" is refused, naming what is accepted" 'exits 2' prints_nothing 'says "$values"'
        done
        ;;
    esac
done <"$work/rows"

run "$nxrun" --verbose env
proves "verbose alone is level 1" 'exits 0' 'grep -qx NXMEM_VERBOSE=1 "$work/out"'
run "$nxrun" --coverage env
proves "coverage alone asks for it" 'exits 0' 'grep -qx NXMEM_COVERAGE=1 "$work/out"'
run env NXMEM_STACKS=3 "$nxrun" --stacks=7 env
proves "an option wins over the environment" 'grep -qx NXMEM_STACKS=7 "$work/out"'
run env NXMEM_STACKS=3 "$nxrun" env
proves "the environment stands where no option is given" 'grep -qx NXMEM_STACKS=3 "$work/out"'
run "$nxrun" --report="$build/leaks.%p.txt" --journal=j.%p --plugin="./$build/lib/nxmem/direct.so" env
proves "relative paths are made absolute, for programs that change folder" \
    'grep -qxF "NXMEM_REPORT=$PWD/$build/leaks.%p.txt" "$work/out"' 'grep -qxF "NXMEM_JOURNAL=$PWD/j.%p" "$work/out"' 'grep -qxF "NXMEM_PLUGIN=$PWD/$build/lib/nxmem/direct.so" "$work/out"'

run env NXMEM_PLUGIN="./$build/lib/nxmem/direct.so" NXMEM_REPORT=leaks "$nxrun" env
proves "so are those of the environment" 'grep -qxF "NXMEM_REPORT=$PWD/leaks" "$work/out"' \
    'grep -qxF "NXMEM_PLUGIN=$PWD/$build/lib/nxmem/direct.so" "$work/out"'
run env NXMEM_SUPPRESSIONS=none "$nxrun" --suppressions= env
proves "an empty option takes back what the environment says" 'exits 0' 'grep -qx NXMEM_SUPPRESSIONS= "$work/out"'

run bash -c '"$0" --help | head -n 1' "$nxrun"
proves "help may be cut short" is_silent 'prints "Usage: nxrun"'
for format in json text; do
    run "$nxrun" --report $format -- true
    proves "--report $format is taken for a slip" 'exits 2' says_one_line 'says "--report-format $format"' '[ ! -e $format ]'
done
run "$nxrun" --help=1
proves "an option without a value is not given one" 'exits 2' says_one_line 'says "--help takes no value"'
run "$nxrun" --frobnicate env
proves "an unknown option is refused by name" 'exits 2' prints_nothing says_one_line 'says --frobnicate'
proves "one that is far from all is told where they are" 'says "nxrun --help"' '! grep -q mean "$work/err"'
for option in --repot=x "--repot x" "--leak_exit-cod 3"; do
    run "$nxrun" $option env
    case $option in --repot*) meant=report ;; *) meant=leak-exit-code ;; esac
    proves "one that almost is an option is told which: $option" 'exits 2' prints_nothing says_one_line 'says "unknown option ${option%%[= ]*}; did you mean --$meant?"'
done
run "$nxrun" -x env
proves "an unknown short option is refused" 'exits 2' prints_nothing 'says -x'
run "$nxrun" --stacks
proves "an option without its value is refused" 'exits 2' 'says "--stacks needs a value"'
run "$nxrun" --suppressions "$work/none" env
proves "a suppressions file that cannot be read is refused" 'exits 2' prints_nothing 'says "$work/none"'
# --- where reports and journals go ---
# Root may write anywhere.
as_nobody() { if [ "$(id -u)" = 0 ]; then setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; else "$@"; fi; }
chmod 755 "$work" && mkdir -m 777 "$work/open" && mkdir -m 555 "$work/closed"
touch "$work/theirs" && chmod 444 "$work/theirs"
for option in report journal; do
    variable=NXMEM_$(echo $option | tr a-z A-Z)
    run "$nxrun" --$option="$work/none/leaks.%p" env
    proves "a $option goes into a folder that is there" 'exits 2' prints_nothing says_one_line 'says "--$option: there is no folder $work/none"'
    run env $variable="$work/none/leaks" "$nxrun" env
    proves "also a $option of the environment" 'exits 2' prints_nothing says_one_line 'says "$work/none"'
    run "$nxrun" --$option="$work" env
    proves "a $option is no folder" 'exits 2' prints_nothing says_one_line 'says "is a folder"'
    run as_nobody "$nxrun" --$option="$work/closed/leaks" env
    proves "a $option goes where one may write" 'exits 2' prints_nothing says_one_line 'says "nothing can be written in $work/closed"'
    run as_nobody "$nxrun" --$option="$work/open/leaks.%p" env
    proves "where one may write a $option is taken" 'exits 0' is_silent
    run "$nxrun" --$option="$work/%h/leaks" env
    proves "a folder of a $option that depends on the process is not looked for" 'exits 0' is_silent
done
echo precious >"$work/list"
for place in "$work/list" /dev/null; do
    run "$nxrun" --journal="$place" env
    proves "what is no journal is not replaced by one: $place" 'exits 2' prints_nothing says_one_line 'says "--journal: $place is there and is no journal"'
done
ln -s "$work/theirs" "$work/link"
run "$nxrun" --journal="$work/link" env
proves "nor is a link" 'exits 2' prints_nothing says_one_line 'says "is no journal"'
run "$nxrun" --journal="$work/theirs" env
proves "an empty file is" 'exits 0' is_silent
{ head -c 100 /dev/zero && printf 'nxmem journal 1\0' && head -c 100 /dev/zero; } >"$work/earlier"
run "$nxrun" --journal="$work/earlier" env
proves "so is an earlier journal" 'exits 0' is_silent
for way in "--report=$work/both.%p --journal=$work/both.%p" "--journal $work/theirs --report $work/theirs"; do
    # shellcheck disable=SC2086 # words
    run "$nxrun" $way env
    proves "a report and a journal are two files: $way" 'exits 2' prints_nothing says_one_line 'says "--report and --journal are one file"'
done
run as_nobody "$nxrun" --report="$work/theirs" env
proves "a report file that may not be written is refused" 'exits 2' prints_nothing says_one_line 'says "$work/theirs cannot be written"'
run as_nobody "$nxrun" --report=/dev/null env
proves "one that may be written needs no folder" 'exits 0' is_silent

run "$nxrun"
proves "a missing program is refused" 'exits 2' 'says "no program given"'
run "$nxrun" --
proves "a missing program after -- is refused" 'exits 2' 'says "no program given"'
run "$nxrun" -- "$nxrun" --version
proves "what follows -- belongs to the program" 'exits 0' "prints 'nxrun $(cat VERSION)'"
run "$nxrun" --version
proves "the version is the tree's" 'exits 0' is_silent "prints 'nxrun $(cat VERSION)'"
finish
