#!/bin/bash
# The check of the tests' map notices a test that is not there, one that is not run, and rows that are missing.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
check=$PWD/scripts/check-test-map

tree() { # a tree whose map holds
    rm -rf "$work/tree"
    mkdir -p "$work/tree/tests/unit" "$work/tree/tests/tools"
    cd "$work/tree" || exit 1
    printf 'static void it_works(void **state)\n{\n}\n\n    TEST(it_works),\n' >tests/unit/test_one.c
    echo 'proves "the tool works with $1" true' >tests/tools/test_tool.sh
    cat >tests/README.md <<'MAP'
## 1. theirs (3)

| there | here |
|---|---|
| `one` | `unit/test_one.c:it_works` |
| `two` | `tools/test_tool.sh:the_tool_works_with_` |
| `three` | see Pending |

## Pending (1)

| what | state |
|---|---|
| `three` | pending: better times |
MAP
}
tree
run "$check" .
proves "a map that holds passes and lists what is pending" 'exits 0' 'prints "pending: better times: \`three\`"'
run "$check" --strict .
proves "when strict, what is pending is a failure" 'exits 1'
sed -i -e 's/see Pending/`unit\/test_one.c:it_works`/' -e '/^## Pending/,$d' tests/README.md
run "$check" --strict .
proves "when strict, a map with nothing pending passes" 'exits 0'

refused() { # name, what is printed, file, sed's words
    tree
    sed -i "$4" "$3"
    run "$check" .
    proves "$1" 'exits 1' "prints '$2'"
}
refused "a test that is not there is named" "runs no it_works" tests/unit/test_one.c 's/it_works(void/it_worked(void/'
refused "a test that is not run is named" "runs no it_works" tests/unit/test_one.c '/TEST(/d'
refused "a longer name is another test" "runs no it_works" tests/unit/test_one.c 's/it_works/it_works_today/'
refused "a test of a script is looked for" "runs no the_tool_works_with_" tests/tools/test_tool.sh 's/works/fails/'
refused "a file that is not there is named" "there is no tests/unit/test_two.c" tests/README.md 's/test_one/test_two/'
refused "a row less than the heading says is told" "has 2 rows" tests/README.md '/`two`/d'
refused "a row without a test is told" "no test and not pending" tests/README.md 's/`tools.*`/nothing/'
refused "a row that says pending must be pending" "is not under Pending" tests/README.md 's/^| `three` | pending/| `four` | pending/'
rm tests/README.md
run "$check" .
proves "a tree without a map is an error" 'exits 2'
finish
