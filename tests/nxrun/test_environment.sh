#!/bin/bash
# What the program gets: its arguments as they were, our library first in LD_PRELOAD, and its own exit status.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
nxrun=$PWD/$build/bin/nxrun
shim=$(readlink -f "$build/lib/libnxmem_preload.so")
export NXMEM_REPORT=none
unset LD_PRELOAD
preload() { sed -n 's/^LD_PRELOAD=//p' "$work/out"; }

run "$nxrun" env
proves "the shim is preloaded by its full path" 'exits 0' '[ "$(preload)" = "$shim" ]'
gcc -shared -fPIC -x c -o "$work/other.so" /dev/null || exit 1
run env LD_PRELOAD="$work/other.so" "$nxrun" env
proves "a preload that is set is kept behind ours" 'exits 0' '[ "$(preload)" = "$shim:$work/other.so" ]'
run "$nxrun" "$nxrun" env
proves "nxrun in nxrun preloads once" 'exits 0' '[ "$(preload)" = "$shim" ]'
asan=$(gcc -print-file-name=libasan.so)
asan=$(readlink -f "$asan")
run env ASAN_OPTIONS=detect_leaks=0 LD_PRELOAD="$asan" "$nxrun" env
proves "a sanitizer's runtime stays first" 'exits 0' '[ "$(preload)" = "$asan:$shim" ]'

cat >"$work/show.sh" <<'SCRIPT'
#!/bin/sh
printf '<%s>' "$#" "$@"
SCRIPT
chmod +x "$work/show.sh"
run "$nxrun" -- "$work/show.sh" 'two words' '' '*' "line
break" '--plugin' '$HOME' "it's" 'trailing
'
printf '<8><two words><><*><line\nbreak><--plugin><$HOME><it'"'"'s><trailing\n>' >"$work/expected"
proves "arguments with spaces, newlines and quotes survive" 'exits 0' 'cmp -s "$work/out" "$work/expected"'
mkdir "$work/a folder" && cp "$work/show.sh" "$work/a folder/a program"
run "$nxrun" "$work/a folder/a program" x
proves "a program's path may hold spaces" 'exits 0' 'prints "<1><x>"'
run sh -c 'cd "$1" && PATH=":$PATH" exec "$2" show.sh y' sh "$work" "$nxrun"
proves "an empty entry of PATH is the current folder" 'exits 0' 'prints "<1><y>"'

for code in 0 1 42 255; do
    run "$nxrun" sh -c "exit $code"
    proves "exit status $code is the program's" "exits $code"
done
run "$nxrun" sh -c 'kill -TERM $$'
proves "a program's death by a signal is passed on" 'exits 143'
"$nxrun" sh -c 'echo $$; exec sleep 30' >"$work/out" &
pid=$!
for _ in $(seq 100); do [ -s "$work/out" ] && break; sleep 0.05; done
proves "nxrun becomes the program" '[ "$(cat "$work/out")" = $pid ]'
kill $pid
wait $pid 2>/dev/null
echo hello >"$work/in"
"$nxrun" cat <"$work/in" >"$work/out" 2>"$work/err"
status=$?
proves "standard input is the program's" 'exits 0' 'prints hello'
run env -i PATH="$PATH" "$nxrun" env
proves "nothing but the preload is added to the environment" 'exits 0' \
    '[ "$(grep -cv -e "^PATH=" -e "^LD_PRELOAD=" -e "^PWD=" "$work/out")" = 0 ]'

run "$nxrun" --verbose -- echo hello
proves "what verbose shows stays out of the program's output" 'exits 0' '[ "$(cat "$work/out")" = hello ]' \
    'says "plugin     "' 'says "program    "'

mkdir -p "$work/two words"
cp -r "$build/bin" "$build/lib" "$work/two words/"
run "$work/two words/bin/nxrun" env
proves "a folder that LD_PRELOAD cannot name is refused" 'exits 2' prints_nothing says_one_line 'says spaces'
mkdir -p "$work/lonely"
cp "$nxrun" "$work/lonely/"
run "$work/lonely/nxrun" env
proves "nxrun without its library says what is missing" 'exits 2' prints_nothing says_one_line 'says libnxmem_preload.so'
ln -s "$nxrun" "$work/link"
run "$work/link" env
proves "nxrun may be reached by a link" 'exits 0' '[ "$(preload)" = "$shim" ]'
[ "$build" != build ] || {
    run scripts/nxrun env
    proves "the script itself uses what the tree has built" 'exits 0' '[ "$(preload)" = "$shim" ]'
}
finish
