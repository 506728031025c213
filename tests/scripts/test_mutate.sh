#!/bin/bash
# The mutation runner tells a killed mutant from one that survives, does not apply or does not build.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
tree=$work/tree
mkdir -p "$tree/scripts" "$tree/tests/unit" "$tree/tests/mutants"
cp scripts/mutate "$tree/scripts/"
cd "$tree" || exit 1
unset NXMEM_TOTALS
cat >Makefile <<'MAKE'
BUILD ?= build$(if $(SAN),/$(SAN))
all: $(BUILD)/tests/unit/test_value
$(BUILD)/tests/unit/test_value: tests/unit/test_value.c value.h
	@mkdir -p $(@D)
	$(CC) -Wall $(if $(CI),-Werror) -I. -o $@ $<
MAKE
printf '#define VALUE 1\n#define UNUSED 2\n' >value.h
printf '#include "value.h"\nint main(void) { return VALUE != 1; }\n' >tests/unit/test_value.c

mutant() { # name, expect, line, replacement
    cat >"tests/mutants/$1.patch" <<PATCH
${2:+# expect: $2}
# why: a test of the runner
--- a/value.h
+++ b/value.h
@@ -$3 +$3 @@
-$(sed -n "$3p" value.h)
+$4
PATCH
}
only() { rm -f tests/mutants/*; mutant "$@"; }
last_line() { [ "$(tail -n 1 "$work/out")" = "$1" ]; }

only dies unit/test_value 1 '#define VALUE 3'
run scripts/mutate
proves "a mutant that a test notices is killed" 'exits 0' 'prints "killed   dies"' 'last_line "1 passed, 0 failed"'
proves "the tree itself is untouched" '[ "$(head -n 1 value.h)" = "#define VALUE 1" ]'
only lives unit/test_value 2 '#define UNUSED 3'
run scripts/mutate
proves "a mutant that no test notices survives, and that is a failure" 'exits 1' 'prints "survived lives"' 'last_line "0 passed, 1 failed"'
only lives unit/test_value 2 '#define UNUSED 3'
mutant dies unit/test_value 1 '#define VALUE 3'
NXMEM_TOTALS=$work/totals run scripts/mutate
proves "what was not killed is named once more at the end" 'exits 1' \
    '[ "$(tail -n 4 "$work/out" | head -n 2)" = "not killed:
  lives: survived unit/test_value" ]'
proves "and where whoever runs many steps collects what failed" \
    '[ "$(cat "$work/totals.failed")" = "FAIL  mutant lives: survived unit/test_value" ]' '[ "$(cat "$work/totals")" = "1 1 0" ]'
only stale unit/test_value 1 '#define VALUE 3'
sed -i 's/^-#define VALUE 1/-#define VALUE 9/' tests/mutants/stale.patch
run scripts/mutate
proves "a patch that does not apply is a failure" 'exits 1' 'prints "does not apply"'
only ruined unit/test_value 1 '#error ruined'
run scripts/mutate
proves "a patch that does not build is a failure" 'exits 1' 'prints "does not build"'
only refused build 1 '#error refused'
run scripts/mutate
proves "unless the compiler is who should notice" 'exits 0' 'prints "killed   refused"'
only accepted build 1 '#define VALUE 3'
run scripts/mutate
proves "a mutant that the compiler should refuse and does not survives" 'exits 1' 'prints "survived accepted"'
only silent '' 1 '#define VALUE 3'
run scripts/mutate
proves "a patch that names no test is a failure" 'exits 1' 'prints "broken   silent"'
only hasty unit/test_value 1 '#define VALUE 3'
printf '#include "value.h"\nint main(void) { return VALUE != 2; }\n' >tests/unit/test_value.c
run scripts/mutate
proves "a test that fails by itself kills nothing" 'exits 1' 'prints "broken   hasty"' 'prints "fails without it: unit/test_value"'
printf '#include "value.h"\nint main(void) { int i = 0; return VALUE != 1; }\n' >tests/unit/test_value.c
run env CI=true scripts/mutate
proves "a warning does not pass for a mutant that does not build" 'exits 0' 'last_line "1 passed, 0 failed"'

only first unit/test_value 1 '#define VALUE 3'
for name in second third fourth; do mutant $name unit/test_value 1 '#define VALUE 4'; done
run scripts/mutate --jobs 2
proves "each mutant starts from the unbroken tree" 'exits 0' 'last_line "4 passed, 0 failed"'
run scripts/mutate tests/mutants/first.patch
proves "patches may be named" 'exits 0' 'last_line "1 passed, 0 failed"'
# A clock that goes on by a second each time it is asked.
mkdir bin && printf '#!/bin/sh\necho >>"%s"\nwc -l <"%s"\n' "$work/clock" "$work/clock" >bin/date && chmod +x bin/date
run env PATH="$PWD/bin:$PATH" scripts/mutate --jobs 1 --seconds 3
proves "the time box ends the run and says how many were left" 'exits 0' 'prints "2 of 4 mutants not tried"' 'last_line "2 passed, 0 failed"'
run env PATH="$PWD/bin:$PATH" scripts/mutate --jobs 1 --seconds 1
proves "a run in which no mutant was tried is a failure" 'exits 1' 'prints "no mutant was tried"' 'last_line "0 passed, 1 failed"'
rm -r bin
run scripts/mutate --record "$work/record" tests/mutants/first.patch
proves "what killed a mutant can be kept" 'exits 0' '[ "$(cat "$work/record")" = "first	unit/test_value: status 1" ]'

# Patches of one file each, which were committed in this order; git knows the dates that it is given.
mkdir -p old new
for file in old/a new/b; do
    printf 'one\n' >$file.h
    printf '# expect: unit/test_value\n# why: order\n--- a/%s\n+++ b/%s\n@@ -1 +1 @@\n-one\n+two\n' $file.h $file.h >tests/mutants/of-${file%/*}.patch
done
rm tests/mutants/{first,second,third,fourth}.patch
first_tried() { sed -n 's/^survived \([a-z-]*\).*/\1/p' "$work/out" | head -n 1; }
commit() { GIT_AUTHOR_DATE="@$1 +0000" GIT_COMMITTER_DATE="@$1 +0000" git -c user.name=t -c user.email=t@t commit -qm "$1"; }
run scripts/mutate --jobs 1
proves "without a history patches go by their names" '[ "$(first_tried)" = of-new ]'
git init -q . && git add tests scripts Makefile value.h new && commit 1000 && git add old && commit 2000
run scripts/mutate --jobs 1
proves "patches of the file that was changed last go first" '[ "$(first_tried)" = of-old ]'
echo >>new/b.h
run scripts/mutate --jobs 1
proves "and before it those of a file that is not committed" '[ "$(first_tried)" = of-new ]'
run scripts/mutate tests/mutants/none.patch
proves "a named patch that is not there is an error" 'exits 2'
rm tests/mutants/*
run scripts/mutate
proves "no patch at all is a failure" 'exits 1'
finish
