# For tests of nxmem-check; read after tests/shell.sh. Rows of expected failures: each is one run of the tool, several run at
# once, and the set of rules that fail must be the row's: a rule more accuses the innocent, a rule less is blind.
here=$PWD/$build
check=$here/bin/nxmem-check
export LD_LIBRARY_PATH=$here/sim${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} # mechanisms of tier DEVICE want a driver
unset NXMEM_FAULTY NXMEM_FAULTY_COMPANION NXMEM_HOST_AS_DEVICE NXMEM_HOST_LIMIT CROOKED NO_COLOR
mkdir "$work/rows"

# What fails, as number:name, in order.
failures_in() { awk '$1 == "FAIL" { sub(":$", "", $3); print $2 ":" $3 }' "$1" | sort -u; }

# Runs in the background, at most six at a time. Rules end by their own waits; the limit is for what hangs.
begin_row() { # row, command…
    local row=$1
    shift
    while [ "$(jobs -rp | wc -l)" -ge 6 ]; do wait -n; done
    {
        "$@" >"$work/rows/$row.out" 2>"$work/rows/$row.err" </dev/null
        echo $? >"$work/rows/$row.status"
    } &
}

# One with a `?` may fail or not.
fails_as() { # row, rules…
    local row=$1 rule
    shift
    failures_in "$work/rows/$row.out" >"$work/got"
    for rule; do case $rule in *\?) grep -qxF "${rule%?}" "$work/got" && echo "${rule%?}" ;; *) echo "$rule" ;; esac; done |
        sort -u >"$work/due"
    cp "$work/rows/$row.err" "$work/err"
    diff "$work/due" "$work/got" | grep '^[<>]' >"$work/out"
    cmp -s "$work/due" "$work/got"
}

# Done, and its status goes with what failed.
ended_as() { # row, number of failures due
    status=$(cat "$work/rows/$1.status" 2>/dev/null)
    if [ -s "$work/got" ]; then [ "$status" = 1 ]; else [ "$status" = 0 ]; fi
}

# --- rows of tests/check/expected --------------------------------------------------------------------------
rows_of() { awk -v plugin="$1" '$1 == plugin { sub("#.*", ""); print }' tests/check/expected; }

# Each mechanism that a list names has its row, and no other.
have_rows() { # plugin; the names are on standard input
    diff <(rows_of "$1" | awk '{ print $2 }' | sort) <(sort) >"$work/out"
}

# One run for each mechanism of the plugin.
begin_rows_of() { # plugin, library
    local mechanism limit
    while read -r _ mechanism _; do
        limit=10
        [ "$mechanism" != holds-release ] || limit=2 # it holds many rules up, each to the end
        begin_row "$1-$mechanism" "$check" --timeout $limit --mechanism "$mechanism" "$2"
    done < <(rows_of "$1")
}

judge_rows_of() { # plugin
    local mechanism rules
    # shellcheck disable=SC2086 # one word a rule
    while read -r _ mechanism rules; do
        proves "$1 $mechanism" "fails_as $1-$mechanism $rules" "ended_as $1-$mechanism"
    done < <(rows_of "$1")
}
