#!/bin/bash
# Processes that the whole shim is preloaded into: silent where there is no CUDA, harmless beside other preloads and
# sanitizers, and cheap to start.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
. tests/integration/shim.sh
[ -z "${SAN:-}" ] || { echo "ok - nothing_to_see_in_a_sanitizers_own_tree"; exit 0; }
unset LD_LIBRARY_PATH
sim=$here/sim

for command in /bin/true "sh -c :" "python3 -c pass" "ls /"; do
    native $command
    keep_native
    run env LD_PRELOAD="$shim" $command
    proves "${command%% *}_is_silent_and_the_same" same_status same_output is_silent
done
run env LD_PRELOAD="$shim" /bin/false
proves "a_failing_command_still_fails" 'exits 1' is_silent

opened() { strace -f -e trace=open,openat,readlink,access,connect,socket -o "$work/trace" "$@" >/dev/null 2>&1; grep -vE 'ENOENT|/etc/ld.so|exited|---|\+\+\+' "$work/trace" | sed -E 's/^[0-9]+ +//; s/0x[0-9a-f]+/ADDRESS/g' | sort; }
python=$(python3 -c 'import sys; print(sys.executable)') # itself, not a script of that name
# In the loader, the C library and the shim: the interpreter's own count depends on where its heap lies, by more than we cost.
instructions() {
    valgrind --tool=callgrind --callgrind-out-file="$work/calls" "$@" >/dev/null 2>&1
    callgrind_annotate --threshold=100 "$work/calls" | grep -E '^ *[0-9,]+ .*\[' | grep -v '/[^/]*python[^/]*\]' |
        awk '{ sub(/\(.*/, "", $1); gsub(",", "", $1); sum += $1 } END { print sum + 0 }'
}
for command in /bin/true "sh -c :" "$python -c pass"; do
    of=$(basename "${command%% *}")
    opened env $command >"$work/without"
    opened env LD_PRELOAD="$shim" $command | grep -v "$shim" >"$work/with"
    proves "${of}_opens_nothing_beyond_the_shim_itself" '[ -s "$work/without" ]' 'diff "$work/without" "$work/with" >"$work/err"'
    plain=$(PYTHONHASHSEED=0 instructions $command)
    preloaded=$(PYTHONHASHSEED=0 LD_PRELOAD=$shim instructions $command)
    echo "starting $of costs $((preloaded - plain)) instructions over $plain" | tee "$work/out"
    # Half a millisecond is two million. A program of many libraries looks up thousands of names, and ours is the first place.
    case $of in python*) bound=200000 ;; *) bound=80000 ;; esac
    proves "${of}_starts_at_little_cost" '[ "$plain" -gt 0 ]' '[ $((preloaded - plain)) -lt $bound ]'
done

run env LD_PRELOAD="$shim" "$here/tests/routing/program_musl"
proves "a_musl_program_lives" 'exits 0' is_silent

# Beside other preloads, in either order.
demo=$here/apps/demo
for other in libjemalloc.so.2 libmimalloc.so.2; do
    path=$(ls /usr/lib/*/$other 2>/dev/null | head -n 1)
    [ -n "$path" ] || continue
    seen="$seen $other"
    for list in "$shim:$path" "$path:$shim" "$shim $path"; do
        run env LD_LIBRARY_PATH="$sim" NXMEM_REPORT="$work/report" NXMEM_REPORT_FORMAT=json LD_PRELOAD="$list" timeout 300 "$demo"
        case $list in "$shim"*) order=behind ;; *) order=before ;; esac
        proves "${other}_${order}_us_changes_nothing" 'exits 0' is_silent 'amount_is leaked 2 2100224'
    done
done
proves "jemalloc_and_mimalloc_were_there" '[ "$(echo $seen | wc -w)" = 2 ]'

# The plain shim under programs built with a sanitizer.
for compiler in gcc clang; do
    $compiler -g -fsanitize=address -isystem "$(scripts/find-cuda headers)" -o "$work/asan-$compiler" tests/apps/demo.c "$sim/libcudart.so.13" || exit 1
    run env LD_LIBRARY_PATH="$sim" NXMEM_REPORT="$work/report" NXMEM_REPORT_FORMAT=json LD_PRELOAD="$shim" \
        ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0 timeout 300 "$work/asan-$compiler"
    proves "a_program_with_asan_of_${compiler}_is_served" 'exits 0' is_silent 'amount_is leaked 2 2100224'
done

# Opened late, by a program that is already running: what it resolves from then on is ours, and nothing breaks.
cat >"$work/late.c" <<'SOURCE'
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    (void)argc;
    if (!dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL)) {
        puts(dlerror());
        return 1;
    }
    return 0;
}
SOURCE
gcc -o "$work/late" "$work/late.c" || exit 1
run "$work/late" "$shim"
proves "the_shim_can_be_opened_late" 'exits 0' is_silent prints_nothing
finish
