#!/bin/bash
# What make install leaves works from there, holds what it should and nothing else, and goes away again.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
export NXMEM_REPORT=none
unset MAKEFLAGS MFLAGS MAKELEVEL
make() { command make --no-print-directory BUILD="$build" DESTDIR="$work/root" PREFIX=/opt/nxmem "$@"; }
top=$work/root/opt/nxmem

run make install
proves "install succeeds below DESTDIR" 'exits 0' '[ -d "$top" ]' '[ "$(ls "$work/root")" = opt ]'
for file in bin/nxrun lib/libnxmem_preload.so lib/nxmem/direct.so lib/nxmem/host.so lib/nxmem/nxmem-probe \
    include/nxmem_memory_abi.h include/nxmem_cuda.h share/man/man1/nxrun.1 share/man/man7/nxmem-preload.7 \
    lib/pkgconfig/nxmem-preload.pc share/doc/nxmem-preload/LICENSE; do
    proves "$file is installed" '[ -s "$top/$file" ]'
done
proves "the misbehaving plugin is not" '[ -z "$(find "$work/root" -name "*faulty*")" ]'
proves "no installed text knows the tree it came from" '! grep -rqIF "$PWD" "$work/root"'

mv "$top" "$work/moved" && top=$work/moved
run "$top/bin/nxrun" --check
proves "nxrun finds its parts where it was moved to" 'exits 0' 'prints "$top/lib/libnxmem_preload.so"' 'prints "$top/lib/nxmem/direct.so"'
run "$top/bin/nxrun" env
proves "and runs programs from there" 'exits 0' 'grep -qxF "LD_PRELOAD=$(readlink -f "$top")/lib/libnxmem_preload.so" "$work/out"'
run env PKG_CONFIG_PATH="$top/lib/pkgconfig" pkg-config --modversion nxmem-preload
proves "pkg-config knows the version" 'exits 0' 'prints "$(cat VERSION)"'
run env PKG_CONFIG_PATH="$top/lib/pkgconfig" pkg-config --cflags --variable=plugindir nxmem-preload
proves "pkg-config knows the plugins' folder" 'exits 0' 'prints /opt/nxmem/lib/nxmem'
printf '#include <nxmem_cuda.h>\n' >"$work/plugin.c"
run gcc -Wall -Werror -fsyntax-only -I"$top/include" "$work/plugin.c"
proves "a plugin compiles against what is installed" 'exits 0'
run groff -man -ww -z "$top/share/man/man1/nxrun.1" "$top/share/man/man7/nxmem-preload.7"
proves "the manual pages are well formed" 'exits 0' is_silent

mkdir -p "$work/root/opt" && mv "$work/moved" "$work/root/opt/nxmem"
run make uninstall
proves "uninstall leaves no file behind" 'exits 0' '[ -z "$(find "$work/root" -type f)" ]'
finish
