#!/bin/bash
# nxrun and the program: what cannot be started is refused as a shell would, what cannot be preloaded is warned of.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
nxrun=$build/bin/nxrun
export NXMEM_REPORT=none
echo 'int main(void) { return 5; }' >"$work/five.c"

run "$nxrun" no-such-program-anywhere
proves "a program that is not on PATH is 127" 'exits 127' says_one_line 'says no-such-program-anywhere'
run "$nxrun" "$work/none"
proves "a program that is not there is 127" 'exits 127' says_one_line 'says "$work/none"'
run "$nxrun" ''
proves "an empty name is 127" 'exits 127' says_one_line
run "$nxrun" "$work"
proves "a folder is 126" 'exits 126' says_one_line 'says folder'
run "$nxrun" "$work/five.c"
proves "a file that is not executable is 126" 'exits 126' says_one_line 'says "not executable"'
run env PATH="$work:$PATH" "$nxrun" five.c
proves "one found on PATH without execute permission is 126" 'exits 126' says_one_line 'says "$work/five.c"'

gcc -o "$work/five" "$work/five.c" || exit 1
run "$nxrun" "$work/five"
proves "a dynamic program runs without a word" 'exits 5' is_silent
run sh -c '"$1" sh -c "[ ! -e /proc/self/fd/2 ] && exit 6" 2>&-' sh "$nxrun"
proves "a closed standard error stays closed and stops nothing" 'exits 6'
gcc -static -o "$work/static" "$work/five.c" || exit 1
run "$nxrun" "$work/static"
proves "a static program runs with a warning" 'exits 5' says_one_line 'says "linked statically"'
gcc -static-pie -o "$work/pie" "$work/five.c" || exit 1
run "$nxrun" "$work/pie"
proves "a static position-independent program runs with a warning" 'exits 5' says_one_line 'says "linked statically"'
gcc -shared -fPIC -o "$work/mine.so" "$work/five.c" || exit 1
run "$nxrun" "$work/mine.so"
proves "a shared library is no program" 'exits 126' says_one_line 'says "is a shared library, not a program"' prints_nothing
loader=$(readelf -l "$work/five" | sed -n 's/.*interpreter: \(.*\)]/\1/p')
run "$nxrun" "$loader" "$work/five"
proves "the loader run by hand is no static program" 'exits 5' is_silent
run "$nxrun" --check "$work/five"
proves "check says what the program is and does not run it" 'exits 0' 'prints "$work/five (dynamic)"'

gcc -o "$work/musl" -Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1 "$work/five.c" || exit 1
run "$nxrun" --check "$work/musl"
proves "a program for musl is warned of" 'exits 0' 'says musl'
cp "$work/five" "$work/narrow"
printf '\001' | dd of="$work/narrow" bs=1 seek=4 conv=notrunc 2>/dev/null
run "$nxrun" --check "$work/narrow"
proves "a 32-bit program is warned of" 'exits 0' 'says 32-bit'
cp "$work/five" "$work/alien"
printf '\363' | dd of="$work/alien" bs=1 seek=18 conv=notrunc 2>/dev/null
run "$nxrun" --check "$work/alien"
proves "a program for another machine is warned of" 'exits 0' 'says "another machine"'
head -c 70 "$work/five" >"$work/stub" && chmod +x "$work/stub"
run "$nxrun" --check "$work/stub"
proves "a truncated program does not trip the check" 'exits 0'

# A set-user-ID program is only privileged for somebody else.
su=$(command -v su)
if [ "$(id -u)" = 0 ]; then
    cp "$work/five" "$work/owned" && chown 1 "$work/owned" && chmod 4755 "$work/owned"
    su=$work/owned
fi
run "$nxrun" --check "$su"
proves "a set-user-ID program is warned of" 'exits 0' 'says set-user-ID'
cp "$work/five" "$work/own" && chmod 4755 "$work/own"
run "$nxrun" --check "$work/own"
proves "one's own set-user-ID program gains nothing and is not" 'exits 0' is_silent

script() { # name, first line
    printf '%s\nexit 6\n' "$2" >"$work/$1"
    chmod +x "$work/$1"
}
script plain '#!/bin/sh'
run "$nxrun" "$work/plain"
proves "a script runs" 'exits 6' is_silent
run "$nxrun" --check "$work/plain"
proves "a script is judged by its interpreter" 'exits 0' 'prints "runs $work/plain"'
script static-script "#!$work/static"
run "$nxrun" --check "$work/static-script"
proves "a script of a static interpreter is warned of" 'exits 0' 'says "$work/static is linked statically"'
script nested "#!$work/static-script"
run "$nxrun" --check "$work/nested"
proves "an interpreter that is a script is followed" 'exits 0' 'says "$work/static is linked statically"'
script by-env '#!/usr/bin/env -S NAME=1 static -x'
run env PATH="$work:$PATH" "$nxrun" --check "$work/by-env"
proves "env's command is followed on PATH" 'exits 0' 'says "$work/static is linked statically"'
script lost '#!/no/such/interpreter -x'
run "$nxrun" "$work/lost"
proves "an interpreter that is not there is 127 and named" 'exits 127' says_one_line 'says /no/such/interpreter'
script lost-env '#!/usr/bin/env no-such-interpreter'
run "$nxrun" "$work/lost-env"
proves "a command of env that is not there is 127 and named" 'exits 127' says_one_line 'says no-such-interpreter'
script own-tail "#!$work/own-tail"
run "$nxrun" "$work/own-tail"
proves "a script that interprets itself ends" 'exits 126' says_one_line
script none ''
run "$nxrun" "$work/none"
proves "a script without #! runs as in a shell" 'exits 6' is_silent
script nameless '#!  '
run "$nxrun" "$work/nameless"
proves "a #! that names nobody is none" 'exits 6' is_silent
script dos "$(printf '#!/bin/sh\r')"
run "$nxrun" "$work/dos"
proves "an interpreter lost to DOS line ends is told so" 'exits 127' says_one_line 'says "DOS line ends"'
printf '\177ELF' >"$work/cut" && chmod +x "$work/cut"
run "$nxrun" "$work/cut"
proves "a truncated program is told so" 'exits 126' prints_nothing says_one_line 'says truncated'
run "$nxrun" "$work/no
such"
proves "a name with a line end is still one line" 'exits 127' says_one_line
script --verbose '#!/bin/sh'
for shell in sh bash; do
    run env PATH="$work:$PATH" $shell "$nxrun" -- --verbose
    proves "a program may be named like an option ($shell)" 'exits 6' is_silent
done
run env PATH= "$nxrun" /bin/echo started
proves "nxrun needs no PATH" 'exits 0' 'prints started' is_silent
finish
