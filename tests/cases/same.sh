# For the scripts of cases; read after tests/integration/shim.sh.
cases=$here/tests/cases/programs
modes="direct deferred host host-deferred none"

in_mode() { # mode, command…
    local mode=$1
    shift
    case $mode in
    direct) json "$@" ;;
    deferred) json NXMEM_FREE=deferred "$@" ;;
    host) on_host NXMEM_REPORT_FORMAT=json "$@" ;;
    host-deferred) on_host NXMEM_REPORT_FORMAT=json NXMEM_FREE=deferred "$@" ;;
    vmm) json NXMEM_PLUGIN=vmm "$@" ;;
    none) json NXMEM_PLUGIN=/nonexistent/plugin.so "$@" ;;
    esac
}

# same NAME [VARIABLE=VALUE]… PROGRAM [argument]…: one proof for each plugin and way of freeing. Keeps every report.
same() {
    local case_=$1 mode
    shift
    native env "$@"
    keep_native
    proves "${case_}_ends_natively" '[ "$status" -lt 90 ]'
    for mode in $modes; do
        in_mode "$mode" "$@"
        proves "${case_}_is_the_same_with_$mode" same_output same_status
        cp "$work/report" "$work/$case_.$mode" 2>/dev/null || : >"$work/$case_.$mode"
    done
}

report_of() { cp "$work/$1.$2" "$work/report"; } # NAME MODE: what follows looks at that report
leaks_are() { # NAME BLOCKS BYTES: with every mechanism
    local case_=$1 mode
    for mode in $modes; do
        report_of "$case_" "$mode"
        proves "${case_}_reports_what_is_left_with_$mode" "amount_is leaked $2 $3"
    done
}
misuses_are() { grep -qF "\"misuse\": $1" "$work/report"; }
