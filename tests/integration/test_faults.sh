#!/bin/bash
# A plugin that misbehaves: the program sees the right CUDA codes and lives, and what is wrong is said in a line.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
. tests/integration/shim.sh
program=$programs/faults
faulty=$here/tests/plugins/faulty.so

codes() { sed -n 's/.* -> //p' "$work/out" | tr '\n' ' ' | sed 's/ $//'; }
codes_are() { [ "$(codes)" = "$1" ]; }
warns() { [ -s "$work/err" ] && ! grep -qv '^nxmem: ' "$work/err"; }

native "$program"
keep_native
native_codes=$(codes)
misbehaving() { # fault, further environment…
    local fault=$1
    shift
    shimmed NXMEM_REPORT_FORMAT=json NXMEM_PLUGIN="$faulty" NXMEM_MECHANISM=faulty NXMEM_FAULTY="$fault" "$@" "$program"
}

# What cannot be opened is done without; a failed allocation instead is there for who asks.
for fault in open-fails null-vtable misaligned-vtable short-vtable short-of-claim missing-allocate missing-deallocate \
    missing-retain missing-release id-zero bad-tier other-device no-allocator-bit unknown-bit backing-without-flag \
    backing-without-vtable backing-foreign mapping-without-flag mapping-without-vtable mapping-foreign deferred-without-slot; do
    misbehaving $fault
    proves "${fault}_leaves_the_program_with_the_driver" 'exits 0' same_output warns 'amount_is leaked 0 0'
    misbehaving $fault NXMEM_ON_ERROR=fail
    proves "${fault}_fails_allocations_where_that_was_asked_for" 'exits 0' 'codes_are "2 2 2 0 0"' warns
done
for fault in sound no-name bad-name missing-required slow reentrant completes-later; do
    for companion in "" 1; do
        misbehaving $fault NXMEM_FAULTY_COMPANION=$companion
        proves "${fault}${companion:+_with_companion}_is_no_reason_to_refuse" 'exits 0' same_output is_silent 'amount_is leaked 0 0'
    done
done
for fault in companion-null companion-short companion-foreign; do
    misbehaving $fault NXMEM_FAULTY_COMPANION=1
    proves "${fault}_is_gone_without" 'exits 0' same_output warns 'amount_is leaked 0 0'
done

# An allocation that is refused, or answered in a way that cannot be used, is out of memory; nothing is recorded.
for fault in oom internal unknown-status ok-null misaligned; do
    for companion in "" 1; do
        misbehaving $fault NXMEM_FAULTY_COMPANION=$companion
        proves "${fault}${companion:+_with_companion}_is_out_of_memory" 'exits 0' 'codes_are "2 2 2 0 0"' has_no_report
        misbehaving $fault:2 NXMEM_FAULTY_COMPANION=$companion
        proves "${fault}${companion:+_with_companion}_at_the_second_call_leaves_the_first_alone" 'exits 0' \
            'codes_are "0 2 0 2 0 0"' 'amount_is leaked 0 0'
    done
done
misbehaving duplicate
proves "an_address_that_is_live_is_not_handed_out_twice" 'exits 0' warns 'amount_is leaked 0 0' \
    '[ "$(codes | cut -d" " -f1-3)" = "0 2 0" ]'

# A release that failed leaves the block live and says so; one that only half succeeded is quarantined, never refunded.
for fault in release-failed release-busy; do
    misbehaving $fault
    proves "${fault}_is_a_failed_free" 'exits 0' 'codes_are "0 0 2 2 0 0 0 0"' warns
done
for fault in release-internal release-status-12 release-unknown-state; do
    misbehaving $fault
    proves "${fault}_is_quarantined_whole" 'exits 0' same_output warns 'amount_is quarantined 4 16484' 'amount_is leaked 0 0' \
        'gate_is plugin'
done
misbehaving release-quarantines
proves "half_a_release_is_half_a_quarantine" 'exits 0' same_output 'amount_is quarantined 4 8242'
misbehaving release-overclaims
proves "credits_are_never_more_than_the_block" 'exits 0' same_output 'amount_is leaked 0 0'

# Queued releases: refused, done twice, done by strangers, never done.
misbehaving enqueue-busy
proves "a_queue_that_refuses_is_passed_by" 'exits 0' same_output 'amount_is leaked 0 0'
misbehaving enqueue-busy NXMEM_FAULTY_COMPANION=1
proves "an_ordered_free_that_is_refused_fails" 'exits 0' 'codes_are "0 0 2 2 0 2 0 0"'
for fault in completes-then-fails completes-twice completes-stranger completes-foreign completes-unknown; do
    for companion in "" 1; do
        misbehaving $fault NXMEM_FAULTY_COMPANION=$companion
        proves "${fault}${companion:+_with_companion}_moves_no_counter_twice" 'exits 0' same_output 'amount_is leaked 0 0' \
            'grep -qF "\"host\": {\"allocators\": 0, \"allocations\": 0, \"queued\": 0}" "$work/report" || gate_is plugin || plugin_was_unloaded'
    done
done
misbehaving never-completes
proves "what_never_completes_keeps_the_plugin_mapped" 'exits 0' same_output 'gate_is host'
misbehaving report-fails
proves "a_plugin_that_cannot_report_is_not_unloaded" 'exits 0' same_output 'gate_is query_failed'
misbehaving report-overcounts
proves "what_only_the_plugin_still_owns_keeps_it_mapped" 'exits 0' same_output 'gate_is plugin'

# What cannot be loaded is done without. Seven of these modules are sound enough to be loaded; their mechanisms serve nothing.
for module in "$here"/tests/plugins/fixtures/load/*.so; do
    name=$(basename "$module" .so)
    shimmed NXMEM_PLUGIN="$module" "$program"
    case $name in
    sound | same_factory_twice | count_below_written | newer_response | factory_newer | factory_page_end | \
        factory_unknown_bit)
        proves "load_${name}_is_loaded" 'exits 0' 'codes_are "2 2 2 0 0"' is_silent ;;
    no_mechanisms)
        proves "load_${name}_leaves_the_device_native" 'exits 0' same_output says_one_line ;;
    *)
        proves "load_${name}_never_hurts_the_program" 'exits 0' same_output warns ;;
    esac
done
for module in /nonexistent.so "$work" "$program" /dev/null; do
    shimmed NXMEM_PLUGIN="$module" "$program"
    proves "a_plugin_that_is_$(basename "$module" | tr . _)_is_one_line" 'exits 0' same_output says_one_line
done
finish
