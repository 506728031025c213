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

sed -n 's/^OPTION(\([a-z_]*\), \([A-Z]*\), "\([A-Z_]*\)", "[^"]*", "\([^"]*\)".*/\1 \2 \3 \4/p' core/options.def >"$work/rows"
proves "the table was read" '[ "$(wc -l <"$work/rows")" = "$rows" ]'
while read -r field type variable values; do
    option=--$(echo "$field" | tr _ -)
    case $field.$type in
    plugin.*) value=direct ;;
    mechanism.*) value=direct ;;
    suppressions.*) : >"$work/list" && value=$work/list ;;
    *.TEXT) value=none ;;
    *.COUNT) value=${values#*..} ;;
    *.CHOICE) value=${values##*|} ;;
    esac
    run "$nxrun" "$option=$value" -- env
    proves "$option=VALUE reaches the program as $variable" 'exits 0' 'grep -qxF "$variable=$value" "$work/out"'
    [ "$field" = verbose ] && continue
    run "$nxrun" "$option" "$value" env
    proves "$option VALUE means the same" 'exits 0' 'grep -qxF "$variable=$value" "$work/out"'
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
run env NXMEM_STACKS=3 "$nxrun" --stacks=7 env
proves "an option wins over the environment" 'grep -qx NXMEM_STACKS=7 "$work/out"'
run env NXMEM_STACKS=3 "$nxrun" env
proves "the environment stands where no option is given" 'grep -qx NXMEM_STACKS=3 "$work/out"'
run "$nxrun" --report=leaks/%p.txt --plugin="./$build/lib/nxmem/direct.so" env
proves "relative paths are made absolute, for programs that change folder" \
    'grep -qxF "NXMEM_REPORT=$PWD/leaks/%p.txt" "$work/out"' 'grep -qxF "NXMEM_PLUGIN=$PWD/./$build/lib/nxmem/direct.so" "$work/out"'

run env NXMEM_PLUGIN="./$build/lib/nxmem/direct.so" NXMEM_REPORT=leaks "$nxrun" env
proves "so are those of the environment" 'grep -qxF "NXMEM_REPORT=$PWD/leaks" "$work/out"' \
    'grep -qxF "NXMEM_PLUGIN=$PWD/./$build/lib/nxmem/direct.so" "$work/out"'
run env NXMEM_SUPPRESSIONS=none "$nxrun" --suppressions= env
proves "an empty option takes back what the environment says" 'exits 0' 'grep -qx NXMEM_SUPPRESSIONS= "$work/out"'

run "$nxrun" --help=1
proves "an option without a value is not given one" 'exits 2' says_one_line 'says "--help takes no value"'
run "$nxrun" --frobnicate env
proves "an unknown option is refused by name" 'exits 2' prints_nothing says_one_line 'says --frobnicate'
run "$nxrun" -x env
proves "an unknown short option is refused" 'exits 2' prints_nothing 'says -x'
run "$nxrun" --stacks
proves "an option without its value is refused" 'exits 2' 'says "--stacks needs a value"'
run "$nxrun" --suppressions "$work/none" env
proves "a suppressions file that cannot be read is refused" 'exits 2' prints_nothing 'says "$work/none"'
run "$nxrun"
proves "a missing program is refused" 'exits 2' 'says "no program given"'
run "$nxrun" --
proves "a missing program after -- is refused" 'exits 2' 'says "no program given"'
run "$nxrun" -- "$nxrun" --version
proves "what follows -- belongs to the program" 'exits 0' "prints 'nxrun $(cat VERSION)'"
run "$nxrun" --version
proves "the version is the tree's" 'exits 0' is_silent "prints 'nxrun $(cat VERSION)'"
finish
