#!/bin/bash
# What is not reached must be listed with its reason, and what is listed must not be reached: on a tree of one small file.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
tree=$work/tree
mkdir -p "$tree"/{scripts,core,tests/unit,build/core,build/tests/unit}
cp scripts/core-coverage scripts/run-tests "$tree/scripts/"
cd "$tree" || exit 1
unset NXMEM_TOTALS BUILD

{
    printf 'int half(int number);\nint half(int number)\n{\n    if (number < 0)\n        return 0;\n'
    for i in $(seq 60); do echo "    for (int i = 0; i < 2; i++) number++;"; done
    printf '    return number / 2;\n}\n'
} >core/half.c
tested() { # what the test passes to half()
    printf 'int half(int number);\nint main(void) { return half(%s) < 0; }\n' "$1" >tests/unit/test_half.c
    gcc -O0 --coverage -c -o build/core/half.o core/half.c && gcc -O0 --coverage -o build/tests/unit/test_half tests/unit/test_half.c build/core/half.o
}
list() { printf '%s\n' "$@" >tests/unit/uncovered.txt; }
coverage() { run scripts/core-coverage build build/summary; }
negative='half.c half: if (number < 0)'

tested '0) + half(100'
list "$negative" '    no caller has a negative number'
coverage
proves "what is listed with its reason is no failure" 'exits 0' 'prints "1 places not reached"'
proves "the summary has the figures" '[ "$(cut -d " " -f 2,4,5 build/summary)" = "64 122 1" ]'
list '# nothing'
coverage
proves "what is not reached and not listed is a failure" 'exits 1' 'prints "not reached, and not in"' 'prints "$negative"'
list "$negative" '    no caller has a negative number' 'half.c half: return number / 2;' '    never'
coverage
proves "what is listed and reached is a failure" 'exits 1' 'prints "reached, or no longer there: half.c half: return number / 2;"'
sed -i 's/^half.c half: return/~ &/' tests/unit/uncovered.txt
coverage
proves "unless it depends on timing" 'exits 0'
sed -i '1i /* one line more */' core/half.c && tested '0) + half(100'
coverage
proves "a place may move" 'exits 0'
list "$negative" 'half.c half: return number / 2;' '    never'
coverage
proves "a place without a reason is a failure" 'exits 1' 'says "without its reason"'
list "$negative" '    no caller has a negative number'
tested '-1'
coverage
proves "too little is a failure" 'exits 1' 'prints "are wanted"'
printf 'int main(void) { return 1; }\n' >tests/unit/test_half.c && gcc -o build/tests/unit/test_half tests/unit/test_half.c
coverage
proves "so is a test that fails" 'exits 1' 'says "a test failed"'
finish
