#!/bin/bash
# nxrun starts nothing with a plugin that will not do: one line with the cause, status 2.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
nxrun=$build/bin/nxrun
export NXMEM_REPORT=none

refused() { # name, word that the line must hold, plugin
    run "$nxrun" --plugin "$3" -- touch "$work/started"
    proves "$1" 'exits 2' prints_nothing says_one_line "says '$2'" '[ ! -e "$work/started" ]'
}

plugin() { # name, compiler flags…: builds $work/NAME.so from a plugin with three good exports
    local name=$1
    shift
    cat >"$work/plugin.c" <<'SOURCE'
#include <string.h>
#include <nxmem_memory_abi.h>
#ifndef MAJOR
#define MAJOR NXMEM_ABI_MAJOR
#endif
#ifndef CODE
#define CODE NXMEM_STATUS_OK
#endif
NxmemStatus NxmemNegotiate(const NxmemNegotiateRequest *request, NxmemNegotiateResponse *response) {
    NxmemStatus status;
    memset(&status, 0, sizeof status);
    status.code = CODE;
    (void)request;
    response->struct_size = sizeof *response;
    response->agreed_major = MAJOR;
    response->plugin_range.major_min = response->plugin_range.major_max = MAJOR;
    response->plugin_range.minor_max = NXMEM_ABI_MINOR;
    response->agreed_minor = NXMEM_ABI_MINOR;
    response->capability_flags = NXMEM_CAPABILITY_ALLOCATOR;
    return status;
}
#ifndef NO_FACTORIES
NxmemStatus NxmemCreateAllocatorFactories(const NxmemAllocatorFactoryVtable **factories, uint64_t max, uint64_t *count) {
    NxmemStatus status;
    memset(&status, 0, sizeof status);
    (void)factories, (void)max;
    *count = 0;
    return status;
}
#endif
NxmemStatus NxmemQueryUnloadReadiness(NxmemUnloadReport *report) {
    NxmemStatus status;
    memset(&status, 0, sizeof status);
    memset(report, 0, sizeof *report);
    report->struct_size = sizeof *report;
    return status;
}
#ifdef ENDS
#include <stdlib.h>
#include <unistd.h>
__attribute__((constructor)) static void end(void) { ENDS; }
#endif
#ifdef INCOMPLETE
extern void nobody_has_this(void);
void calls_nobody(void) { nobody_has_this(); }
#endif
#ifdef CRASH
__attribute__((constructor)) static void crash(void) { __builtin_trap(); }
#endif
SOURCE
    gcc -shared -fPIC -Iinclude "$@" -o "$work/$name.so" "$work/plugin.c" || exit 1
}

refused "a plugin that is not there is named" "$work/none.so" "$work/none.so"
refused "a short name that is not there is named" nonsuch nonsuch
refused "a short name with its ending is told without" "write direct for " direct.so
refused "a folder is no plugin" "$work" "$work"
echo "not a library" >"$work/text.so"
refused "a text file is no plugin" "$work/text.so" "$work/text.so"
: >"$work/empty.so"
refused "an empty file is no plugin" "$work/empty.so" "$work/empty.so"
plugin good
head -c 100 "$work/good.so" >"$work/short.so"
refused "a truncated library is no plugin" "$work/short.so" "$work/short.so"
cp "$work/good.so" "$work/narrow.so"
printf '\001' | dd of="$work/narrow.so" bs=1 seek=4 conv=notrunc 2>/dev/null
refused "a 32-bit library is no plugin" "$work/narrow.so" "$work/narrow.so"
plugin exports -DNO_FACTORIES
refused "a missing export is named" NxmemCreateAllocatorFactories "$work/exports.so"
plugin major -DMAJOR=2
refused "a plugin of another major version is refused" "$work/major.so" "$work/major.so"
plugin declines -DCODE=NXMEM_STATUS_VERSION_MISMATCH
refused "a plugin that declines is refused with its word" VERSION_MISMATCH "$work/declines.so"
plugin crash -DCRASH
run "$nxrun" --plugin "$work/crash.so" -- touch "$work/started"
proves "a plugin that crashes when it is loaded takes nothing with it" 'exits 2' prints_nothing 'says "$work/crash.so"' \
    '[ ! -e "$work/started" ]'

for end in 'exit(0)' 'exit(5)' '_exit(5)'; do
    plugin ends -DENDS="$end"
    run "$nxrun" --plugin "$work/ends.so" -- touch "$work/started"
    proves "a plugin that calls $end when it is loaded is refused" 'exits 2' prints_nothing says_one_line 'says "ends the process"' \
        '[ ! -e "$work/started" ]'
done
plugin incomplete -DINCOMPLETE
run "$nxrun" --plugin "$work/incomplete.so" -- echo started
proves "a function that nobody has is warned of by name" 'exits 0' 'prints started' 'says nobody_has_this'

run "$nxrun" --plugin "$work/good.so" -- echo started
proves "a plugin without device memory is a warning" 'exits 0' 'prints started' 'says "warning: plugin"'
run "$nxrun" --mechanism nonsuch -- echo started
proves "a mechanism that the plugin lacks is refused, naming those it has" 'exits 2' prints_nothing 'says nonsuch' 'says direct'
run env NXMEM_PLUGIN=nonsuch "$nxrun" -- echo started
proves "a plugin named by the environment is checked too" 'exits 2' prints_nothing 'says nonsuch'
run env NXMEM_PLUGIN= "$nxrun" --check
proves "an empty NXMEM_PLUGIN means the default" 'exits 0' 'prints nxmem/direct.so'

run "$nxrun" --check
proves "check without a program tells shim, plugin and mechanisms" 'exits 0' is_silent \
    'prints libnxmem_preload.so' 'prints nxmem/direct.so' 'prints "direct (device 0"'
run "$nxrun" --check --plugin "$work/none.so"
proves "check fails as the run would" 'exits 2' 'says "$work/none.so"'
finish
