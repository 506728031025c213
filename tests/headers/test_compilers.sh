#!/bin/bash
# The public headers under every compiler and language version that they promise: the layout as assertions
# made from the header's own annotations, each header alone, and the refusal of 32-bit targets. A compiler that
# is missing is a failure.
set -u
cd "$(dirname "$0")/../.." || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failures=0

check() { # name, command…
    local name=$1
    shift
    if "$@" >"$work/out" 2>&1; then
        echo "ok - $name"
    else
        echo "not ok - $name"
        sed 's/^/    /' "$work/out" | head -n 30
        failures=$((failures + 1))
    fi
}

# An array of negative size is an error in every version of both languages.
make_assertions() {
    cat <<'HEAD'
#include <stddef.h>
#include "nxmem_memory_abi.h"
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define HOLDS(condition) typedef char JOIN(holds_, __LINE__)[(condition) ? 1 : -1]
HEAD
    sed -nE \
        -e 's/.*NXMEM_LAYOUT: (Nxmem[A-Za-z]*) size=([0-9]+) align=([0-9]+).*/struct align_\1 { char c; \1 v; };\nHOLDS(sizeof(\1) == \2);\nHOLDS(offsetof(struct align_\1, v) == \3);/p' \
        -e 's/.*NXMEM_LAYOUT_FIELD: (Nxmem[A-Za-z]*)\.([a-z_]+) offset=([0-9]+) size=([0-9]+).*/HOLDS(offsetof(\1, \2) == \3);\nHOLDS(sizeof(((\1 *)0)->\2) == \4);/p' \
        include/nxmem_memory_abi.h
}
make_assertions >"$work/assertions.h"
check "there is an assertion for every figure" test "$(grep -c '^HOLDS' "$work/assertions.h")" = $((23 * 2 + 144 * 2))
# The hand-written table says the same to every compiler, whatever the annotations say.
cat >"$work/table.c" <<'TABLE'
#include <stddef.h>
#include "nxmem_memory_abi.h"
#define STRUCT(name, size, align) typedef char size_of_##name[sizeof(name) == (size) ? 1 : -1];
#define FIELD(struct_, field, offset, size) \
    typedef char at_##struct_##_##field[offsetof(struct_, field) == (offset) && sizeof(((struct_ *)0)->field) == (size) ? 1 : -1];
#include "tests/headers/layout_table.h"
TABLE

strict=(-Wall -Wextra -Wshadow -pedantic -Werror -fsyntax-only -Iinclude)
alone() { # compiler, language, version, header
    printf '#include "%s"\n' "$4" >"$work/alone.$2"
    "$1" -std="$3" "${strict[@]}" -x "$2" "$work/alone.$2"
}
asserted() { # compiler, language, version
    printf '#include "assertions.h"\n' >"$work/asserted.$2"
    "$1" -std="$3" "${strict[@]}" -Wno-unused-local-typedefs -I"$work" -x "$2" "$work/asserted.$2"
}
for compiler in gcc clang; do
    for version in c99 c11 c17 c2x; do
        check "layout holds under $compiler $version" asserted $compiler c $version
        for header in include/*.h; do
            check "${header##*/} is clean alone under $compiler $version" alone $compiler c $version "${header##*/}"
        done
    done
done
for compiler in g++ clang++; do
    for version in c++11 c++14 c++17 c++20; do
        check "layout holds under $compiler $version" asserted $compiler c++ $version
        for header in include/*.h; do
            check "${header##*/} is clean alone under $compiler $version" alone $compiler c++ $version "${header##*/}"
        done
    done
done

# Other data models and other machines: on Windows long has 32 bits (LLP64). MSVC itself is not here to be asked.
tabled() { # compiler, version
    "$1" -std="$2" "${strict[@]}" -I. -x c "$work/table.c"
}
for compiler in x86_64-w64-mingw32-gcc aarch64-linux-gnu-gcc; do
    for version in c99 c11; do
        check "layout holds under $compiler $version" asserted $compiler c $version
        for header in include/*.h; do
            check "${header##*/} is clean alone under $compiler $version" alone $compiler c $version "${header##*/}"
        done
    done
done
for compiler in gcc clang x86_64-w64-mingw32-gcc aarch64-linux-gnu-gcc; do
    check "the hand-written table holds under $compiler" tabled $compiler c11
done
long_has_32_bits() { echo 'typedef char holds[sizeof(long) == 4 && sizeof(void *) == 8 ? 1 : -1];' | "$1" -fsyntax-only -x c -; }
check "one of them has a short long" long_has_32_bits x86_64-w64-mingw32-gcc
check "the guide's plugin compiles for another machine" aarch64-linux-gnu-gcc -std=c11 "${strict[@]}" plugins/minimal.c

# Internal headers are C with GNU's extensions; C++ must at least be able to read them, unless they hold C's atomics.
internal() { # compiler, language, version, header
    printf '#include "%s"\n' "$4" >"$work/internal.$2"
    "$1" -std="$3" -Wall -Wextra -Werror -fsyntax-only -D_GNU_SOURCE -I. -Iinclude -x "$2" "$work/internal.$2"
}
has_atomics() { gcc -std=gnu11 -D_GNU_SOURCE -I. -Iinclude -M "$1" | grep -q stdatomic.h; }
for header in core/*.h; do
    check "$header compiles alone as C by gcc" internal gcc c gnu11 "$header"
    check "$header compiles alone as C by clang" internal clang c gnu11 "$header"
    has_atomics "$header" || check "$header compiles alone as C++ by g++" internal g++ c++ gnu++17 "$header"
done

# Only the 64-bit layout is a contract (a 32-bit one would differ silently).
refused() { # compiler, mode
    printf '#include "nxmem_memory_abi.h"\n' >"$work/narrow.c"
    "$1" -m64 -ffreestanding -fsyntax-only -Iinclude "$work/narrow.c" || return 1
    ! "$1" "$2" -ffreestanding -fsyntax-only -Iinclude "$work/narrow.c" 2>"$work/narrow.err" &&
        grep -q '#error.*64-bit pointers only\|error: .*64-bit pointers only' "$work/narrow.err"
}
for compiler in gcc clang; do
    for mode in -m32 -mx32; do
        check "a target with 32-bit pointers is refused ($compiler $mode)" refused $compiler $mode
    done
done
[ $failures = 0 ]
