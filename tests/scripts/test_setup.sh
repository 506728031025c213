#!/bin/bash
# The set-up, with stand-ins for Debian's programs: installs what is missing and only that, as root or through sudo,
# and says what to do where it may not.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
mkdir -p "$work/bin" "$work/cuda/include"
printf '#define CUDA_VERSION 13000\n' >"$work/cuda/include/cuda.h"
: >"$work/cuda/include/cudaTypedefs.h"
export FAKE=$work CUDA_HOME=$work/cuda

stand_in() { # program, body
    printf '#!/bin/sh\n%s\n' "$2" >"$work/bin/$1"
    chmod +x "$work/bin/$1"
}
stand_in dpkg-query 'sed "s/^/installed /" "$FAKE/installed"'
stand_in apt-cache '[ "$1" = show ] && grep -qx "$2" "$FAKE/known"'
stand_in apt-get 'echo "apt-get $*" >>"$FAKE/calls"
case $1 in install) for word; do case $word in -* | install) ;; *) echo "$word" >>"$FAKE/installed" ;; esac; done ;; esac'
stand_in id 'cat "$FAKE/uid"'
stand_in sudo '[ -e "$FAKE/sudo-allowed" ] || exit 1
shift; echo "sudo $*" >>"$FAKE/calls"; exec "$@"'
stand_in node true
stand_in npm true

all_packages() { grep '^[^#]' scripts/packages.txt | cut -d ' ' -f 1 | cut -d '|' -f 1; }
machine() { # uid, packages to be missing…
    all_packages >"$work/known"
    cp "$work/known" "$work/installed"
    for package in "${@:2}"; do sed -i "/^$package\$/d" "$work/installed"; done
    echo "$1" >"$work/uid"
    rm -f "$work/calls" "$work/sudo-allowed"
}
set_up() { run env PATH="$work/bin:$PATH" scripts/setup; }
calls() { [ "$(cat "$work/calls" 2>/dev/null)" = "$1" ]; }
install='apt-get install -y -qq --no-install-recommends'

machine 0
set_up
proves "with everything there it does nothing, silently" 'exits 0' 'calls ""' prints_nothing is_silent
machine 1000
set_up
proves "and needs no privileges for it" 'exits 0' 'calls ""'
machine 0 valgrind strace
set_up
proves "root installs exactly what is missing" 'exits 0' 'calls "apt-get update -qq
$install valgrind strace"'
rm "$work/calls"
set_up
proves "a second time there is nothing to do" 'exits 0' 'calls ""'
machine 1000 valgrind
touch "$work/sudo-allowed"
set_up
proves "somebody with sudo installs through it" 'exits 0' 'grep -q "^sudo $install valgrind" "$work/calls"'
machine 1000 valgrind strace
set_up
proves "somebody without is given the command" 'exits 1' 'calls ""' 'says "apt-get install --no-install-recommends valgrind strace"'

machine 1000 valgrind nodejs clang
run env PATH="$work/bin:$PATH" scripts/setup demo
proves "the demo needs no more than it uses" 'exits 0' 'calls ""'
machine 1000 gcc
run env PATH="$work/bin:$PATH" scripts/setup demo
proves "but that it does need" 'exits 1' 'says "recommends gcc"'
machine 0 nodejs npm
set_up
proves "node from elsewhere will do" 'exits 0' 'calls ""'
machine 0 libmimalloc2.0
sed -i 's/^libmimalloc2.0$/libmimalloc3/' "$work/known"
set_up
proves "of alternatives the distribution's own is taken" 'exits 0' 'grep -q "recommends libmimalloc3\$" "$work/calls"'
rm "$work/calls"
set_up
proves "and satisfies from then on" 'exits 0' 'calls ""'
machine 0 valgrind
stand_in apt-get 'echo "apt-get $*" >>"$FAKE/calls"'
set_up
proves "an installation that did not help is a failure" 'exits 1' 'says "still missing: valgrind"'
stand_in apt-get 'exit 100'
set_up
proves "an installation that fails is a failure" 'exits 1'

machine 0
run env PATH="$work/bin:$PATH" CUDA_HOME="$work/nowhere" scripts/setup
proves "without CUDA headers it says where to get them" 'exits 1' 'says "CUDA Toolkit Downloads"' 'says "$work/nowhere"'

run scripts/find-cuda headers
proves "CUDA_HOME decides" 'exits 0' 'prints "$work/cuda/include"' is_silent
sed -i 's/13000/12040/' "$work/cuda/include/cuda.h"
run scripts/find-cuda headers
proves "headers that are too old are refused, with their version" 'exits 1' prints_nothing 'says "version 12040"'
sed -i 's/12040/13000/' "$work/cuda/include/cuda.h"
rm "$work/cuda/include/cudaTypedefs.h"
run scripts/find-cuda headers
proves "half a toolkit is refused" 'exits 1' prints_nothing
: >"$work/cuda/include/cudaTypedefs.h"
mkdir "$work/cuda/bin" && : >"$work/cuda/bin/nvcc" && chmod +x "$work/cuda/bin/nvcc" && ln -s "$work/cuda/bin/nvcc" "$work/bin/nvcc"
run env -u CUDA_HOME PATH="$work/bin:$PATH" scripts/find-cuda headers
proves "the nvcc on PATH leads to its headers, through links" 'exits 0' 'prints "$work/cuda/include"'
for part in libcudart.so libcudart_static.a libcublas.so; do
    mkdir -p "$work/cuda/lib64" && : >"$work/cuda/lib64/libcudart.so" && : >"$work/cuda/lib64/libcudart_static.a" && : >"$work/cuda/lib64/libcublas.so"
    run scripts/find-cuda libraries
    proves "the libraries are found beside the headers" 'exits 0' 'prints "$work/cuda/lib64"'
    rm "$work/cuda/lib64/$part"
    run scripts/find-cuda libraries
    proves "without $part it says what to install" 'exits 1' prints_nothing 'says "$part"' 'says "CUDA Toolkit Downloads"'
    run env PATH="$work/bin:$PATH" scripts/setup check
    proves "and so does a set-up that wants them" 'exits 1' 'says "$part"'
    run env PATH="$work/bin:$PATH" scripts/setup
    proves "while building needs headers only" 'exits 0'
done
finish
