#!/bin/bash
# Packages that are unpacked and not installed, with stand-ins for Debian's programs: from where apt takes Debian, under an
# architecture and a suite of their own, and nothing of the machine's apt is touched.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
mkdir -p "$work/bin"
export FAKE=$work

stand_in() { # program, body
    printf '#!/bin/sh\n%s\n' "$2" >"$work/bin/$1"
    chmod +x "$work/bin/$1"
}
stand_in apt-get 'case $1 in
indextargets) cat "$FAKE/targets"; exit ;;
esac
for word; do
    case $word in Dir::Etc::SourceList=*) cat "${word#*=}" >"$FAKE/source" ;; esac
done
echo "$*" >>"$FAKE/calls"
case "$*" in
*" update") exit "$(cat "$FAKE/update")" ;;
*" download "*) for word; do shift; [ "$word" = download ] && break; done; for package; do echo "$package" >"$package.deb"; done ;;
esac'
stand_in dpkg-deb 'mkdir -p "$3" && touch "$3/$(cat "$2")"'
echo "Debian file:/mirror/debian/" >"$work/targets"
echo 0 >"$work/update"
fetch() { run env PATH="$work/bin:$PATH" scripts/fetch-debian "$work/folder" arm64 bookworm main one two; }

fetch
proves "each package is unpacked" 'exits 0' is_silent '[ "$(echo $(ls "$work/folder"))" = "one two" ]'
proves "the source is where apt takes Debian from" 'grep -q "file:/mirror/debian/ bookworm main$" "$work/source"'
proves "each call is for the other architecture and with lists of its own" \
    '[ "$(grep -c "APT::Architecture=arm64.* \(update\|download\)" "$work/calls")" = 2 ]' '! grep -qv "Dir::State::Lists=/tmp/" "$work/calls"' \
    '! grep -qv "SourceParts=/dev/null" "$work/calls"'
rm -rf "$work/folder" "$work/calls"
echo 100 >"$work/update"
fetch
proves "a source that cannot be reached is an error, and nothing is unpacked" '[ "$status" != 0 ]' '[ -z "$(ls "$work/folder")" ]' \
    '! grep -q download "$work/calls"'
run scripts/fetch-debian "$work/folder"
proves "what is missing of its arguments is said" 'exits 2' 'says usage'
mkdir -p "$work/libraries"
touch "$work/libraries/libcudart.so.11.0" "$work/libraries/libcudart.so.12" "$work/libraries/libcurand.so.10"
run env PATH="$work/bin:$PATH" scripts/fetch-older-cuda "$work/libraries"
proves "what is there is not fetched again" 'exits 0' 'prints libcudart.so.12' '[ "$(wc -l <"$work/calls")" = 1 ]'
finish
