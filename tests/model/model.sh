# For tests of models; read with `. tests/model/model.sh` after tests/shell.sh. A model holds in every order of its steps; with one
# step left out, spin must find what goes wrong.

# Leaves what spin says of a model, after the edit of sed given.
try() { # model, sed's edit, definitions
    mkdir -p "$work/pan"
    sed "$2" "tests/model/$1.pml" >"$work/pan/model.pml"
    # shellcheck disable=SC2086 # words
    (cd "$work/pan" && rm -f pan model.pml.trail && spin ${3:-} -a model.pml && ${CC:-gcc} -O1 -w -DSAFETY -DCOLLAPSE -o pan pan.c &&
        timeout 300 ./pan -m200000) >"$work/out" 2>"$work/err" </dev/null
    status=$?
}
holds() { prints "errors: 0" && prints "State-vector" && ! prints "not completed" && ! prints "max search depth too small"; }
fails() { prints "assertion violated"; }
is_another() { ! cmp -s "tests/model/$1.pml" "$work/pan/model.pml"; }

command -v spin >/dev/null || { echo "not ok - spin_is_there"; exit 1; }

broken() { # name, model, sed's edit, definitions
    try "$2" "$3" "${4:-}"
    proves "$1" "is_another $2" fails
}
