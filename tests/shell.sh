# For tests written in shell; read with `. tests/shell.sh` from the top of the tree. Prints "ok - NAME" and
# "not ok - NAME" for the runner. Owns the scratch folder $work, removed at exit.
build=${BUILD:-build}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failures=0

# Runs a command; leaves its standard output in $work/out, its standard error in $work/err and its status in $status.
run() {
    "$@" >"$work/out" 2>"$work/err" </dev/null
    status=$?
}

fail_with_what_was_seen() { # name
    echo "not ok - $1"
    echo "    status ${status:-none}"
    sed 's/^/    out: /' "$work/out" 2>/dev/null | head -n 15
    sed 's/^/    err: /' "$work/err" 2>/dev/null | head -n 15
    failures=$((failures + 1))
}

# One test: all conditions given hold. Each is a function or a command in one word.
proves() { # name, condition…
    name=$1
    shift
    for condition in "$@"; do
        eval "$condition" || {
            fail_with_what_was_seen "$name [$condition]"
            return
        }
    done
    echo "ok - $name"
}

exits() { [ "$status" = "$1" ]; }
says() { grep -qF -- "$1" "$work/err"; }
prints() { grep -qF -- "$1" "$work/out"; }
is_silent() { [ ! -s "$work/err" ]; }
prints_nothing() { [ ! -s "$work/out" ]; }
says_one_line() { [ "$(wc -l <"$work/err")" = 1 ]; }

finish() { [ $failures = 0 ]; }
