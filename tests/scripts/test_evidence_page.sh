#!/bin/bash
# The page of evidence follows the mutants, what killed them, the tests and the coverage; --check says when it does not.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
tree=$work/tree
mkdir -p "$tree"/{scripts,docs,tests/unit,tests/mutants,build/coverage}
cp scripts/evidence-page "$tree/scripts/"
cd "$tree" || exit 1
unset NXMEM_TOTALS JOBS

mutant() { # name, file
    printf '# expect: unit/test_one\n# why: rule of %s\n--- a/%s\n+++ b/%s\n@@ -1 +1 @@\n-one\n+two %s\n' "$1" "$2" "$2" "$1" >"tests/mutants/$1.patch"
}
grep -oE '"(core|abi)-[a-z-]+"' scripts/evidence-page | tr -d '"' | while read -r name; do mutant "$name" core/thing.c; done
mutant elsewhere plugins/thing.c
printf 'static void it_works(void **state)\n{\n}\n\nstatic int setup(void **state)\n{\n}\n' >tests/unit/test_one.c
echo '980 1000 935 1000 7' >build/coverage/summary
# Stands for the runner: every patch that it is given dies, unless it is told otherwise.
cat >scripts/mutate <<'FAKE'
#!/bin/bash
echo "$*" >>tried
for patch in "$@"; do
    case $patch in *.patch) [ -e survive ] || printf '%s\tunit/test_one: it_works\n' "$(basename "$patch" .patch)" >>"$record" ;; esac
    [ "$last" != --record ] || record=$patch
    last=$patch
done
[ ! -e survive ]
FAKE
chmod +x scripts/mutate
shows() { grep -qF -- "$1" docs/evidence.md; }
evidence() { rm -f tried; run scripts/evidence-page "$@"; }

evidence
proves "each mutant has its rule and what killed it" 'exits 0' 'shows "| rule of core-gate-plugin-ignored | unit/test_one: it_works |"'
proves "of other places it is what the patch names, and they are not tried" 'shows "| rule of elsewhere | unit/test_one |"' '! grep -q elsewhere tried'
proves "tests and coverage are there" 'shows "| \`tests/unit/\` | 1 | 1 | 0 |"' 'shows "At least 98% of the lines and 93% of the branches"'
evidence --check
proves "what was just written is current" 'exits 0' '[ ! -e tried ]'
evidence
proves "what is known is not tried again" 'exits 0' '[ ! -e tried ]'
sed -i 's/^@@ .*/@@ -7 +7 @@/' tests/mutants/core-gate-plugin-ignored.patch
evidence --check
proves "a patch may move" 'exits 0'
sed -i 's/^+two.*/+three/' tests/mutants/core-gate-plugin-ignored.patch
evidence --check
proves "a patch that does something else has not been killed yet" 'exits 1' 'prints "is stale"'
touch survive
evidence
proves "a mutant that survives is a failure" 'exits 1' 'says "not every mutant was killed"'
rm survive
evidence
proves "only what is not known is tried" 'exits 0' '[ "$(grep -o "[a-z-]*\.patch" tried)" = core-gate-plugin-ignored.patch ]'
echo '990 1000 950 1000 7' >build/coverage/summary
evidence --check
proves "more coverage than the page promises is no contradiction" 'exits 0'
echo '979 1000 935 1000 7' >build/coverage/summary
evidence --check
proves "less is" 'exits 1' 'says "promises more coverage"'
echo '980 1000 935 1000 7' >build/coverage/summary
printf 'static void another(void **state)\n{\n}\n' >>tests/unit/test_one.c
evidence --check
proves "a new test makes the page stale" 'exits 1' 'prints "is stale"'
rm tests/mutants/core-gate-plugin-ignored.patch
evidence
proves "the ten that the ABI came with must be there" 'exits 1' 'says "there is no tests/mutants/core-gate-plugin-ignored.patch"'
finish
