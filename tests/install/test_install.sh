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
for file in bin/nxrun bin/nxmem-report bin/nxmem-check lib/libnxmem_preload.so lib/libnxmem_host.so lib/libnxmem_host.a \
    lib/nxmem/direct.so lib/nxmem/host.so lib/nxmem/vmm.so lib/nxmem/nxmem-probe \
    include/nxmem_memory_abi.h include/nxmem_cuda.h include/nxmem_host.h lib/pkgconfig/nxmem-host.pc \
    share/man/man1/nxrun.1 share/man/man1/nxmem-report.1 share/man/man1/nxmem-check.1 share/man/man7/nxmem-preload.7 \
    lib/pkgconfig/nxmem-preload.pc share/doc/nxmem-preload/LICENSE; do
    proves "$file is installed" '[ -s "$top/$file" ]'
done
proves "the misbehaving plugin is not" '[ -z "$(find "$work/root" -name "*faulty*")" ]'
proves "no installed text knows the tree it came from" '! grep -rqIF "$PWD" "$work/root"'
doc=$top/share/doc/nxmem-preload
run scripts/dead-links "$doc"/*.md "$doc"/docs/*.md
proves "every link of an installed page leads somewhere" 'exits 0' prints_nothing '[ "$(ls "$doc"/docs/*.md | wc -l)" -gt 5 ]'
run cat "$doc/README.md"
proves "to the headers and manual pages, too" 'prints "](../../../include/nxmem_memory_abi.h)"' 'prints "](../../man/man1/nxrun.1)"'
rm "$top/include/nxmem_host.h"
run scripts/dead-links "$doc"/docs/host-guide.md
proves "a dead one would be found" 'exits 1' 'prints "nxmem_host.h, which is not there"'
cp include/nxmem_host.h "$top/include/"

mv "$top" "$work/moved" && top=$work/moved
run "$top/bin/nxrun" --check
proves "nxrun finds its parts where it was moved to" 'exits 0' 'prints "$top/lib/libnxmem_preload.so"' 'prints "$top/lib/nxmem/direct.so"'
run "$top/bin/nxmem-check" "$top/lib/nxmem/host.so"
proves "nxmem-check passes an installed plugin" 'exits 0' is_silent
run "$top/bin/nxrun" env
proves "and runs programs from there" 'exits 0' 'grep -qxF "LD_PRELOAD=$(readlink -f "$top")/lib/libnxmem_preload.so" "$work/out"'
run env PKG_CONFIG_PATH="$top/lib/pkgconfig" pkg-config --modversion nxmem-preload
proves "pkg-config knows the version" 'exits 0' 'prints "$(cat VERSION)"'
run env PKG_CONFIG_PATH="$top/lib/pkgconfig" pkg-config --cflags --variable=plugindir nxmem-preload
proves "pkg-config knows the plugins' folder" 'exits 0' 'prints /opt/nxmem/lib/nxmem'
pc() { env PKG_CONFIG_PATH="$top/lib/pkgconfig" pkg-config --define-variable=prefix="$top" "$@" nxmem-host; }
run gcc -Wall -Werror -o "$work/shared" docs/example-host.c $(pc --cflags --libs)
proves "a host links against what is installed" 'exits 0'
run env LD_LIBRARY_PATH="$top/lib" "$work/shared" "$top/lib/nxmem/host.so"
proves "and runs by the soname" 'exits 0' 'prints "1 MiB"'
run gcc -Wall -Werror -o "$work/static" docs/example-host.c $(pc --cflags) "$(pc --variable=libdir)/libnxmem_host.a" -ldl -lpthread
proves "statically too, as the guide says" 'exits 0' '"$work/static" "$(pc --variable=plugindir)/host.so" >/dev/null'
printf '#include <nxmem_cuda.h>\n' >"$work/plugin.c"
run gcc -Wall -Werror -fsyntax-only -I"$top/include" "$work/plugin.c"
proves "a plugin compiles against what is installed" 'exits 0'
run groff -man -ww -z "$top"/share/man/man1/*.1 "$top/share/man/man7/nxmem-preload.7"
proves "the manual pages are well formed" 'exits 0' is_silent

mkdir -p "$work/root/opt" && mv "$work/moved" "$work/root/opt/nxmem"
run make uninstall
proves "uninstall leaves nothing behind" 'exits 0' '[ -z "$(find "$work/root" ! -type d)" ]' \
    '[ "$(find "$work/root" -depth -type d | wc -l)" -le 3 ]'
finish
