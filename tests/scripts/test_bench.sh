#!/bin/bash
# What cannot be measured is refused before it is, with a stand-in for the program that is measured.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
mkdir -p "$work/build/tests/bench"
pair=$work/build/tests/bench/pair
printf '#!/bin/sh\necho 5\n' >"$pair"
chmod +x "$pair"
bench() { run env BUILD="$work/build" scripts/bench "$@"; }
library() { # path, source
    ${CC:-cc} -shared -fPIC -o "$1" -x c - <<<"$2"
}
refused() { exits 2 && says_one_line && prints_nothing; }

bench --peer /etc/passwd
proves what_is_no_library_is_no_peer refused 'says "/etc/passwd cannot be preloaded"'
bench --peer "$work"
proves a_folder_is_no_peer refused 'says "no such library"'
bench --peer "$work/none.so"
proves what_is_not_there_is_no_peer refused 'says "no such library"'

library "$work/idle.so" 'int nothing_of_that;'
bench --peer "$work/idle.so"
proves a_peer_that_defines_none_of_the_functions_is_named 'exits 0' says_one_line 'says "defines none of the functions"'
library "$work/peer.so" 'int cuMemAlloc_v2(void) { return 1; }'
bench --peer "$work/peer.so"
proves a_peer_is_measured_beside_ours 'exits 0' is_silent 'prints "ours, 1000 live"' 'prints "peer.so, 1000 live"'
(cd "$work" && ln -s "$OLDPWD/scripts" scripts 2>/dev/null)
run env -C "$work" BUILD="$work/build" scripts/bench --peer peer.so
proves a_peer_is_found_from_here_and_not_where_libraries_are 'exits 0' is_silent

bench --counts --json "$work/none/figures"
proves figures_that_could_not_be_kept_are_not_measured refused 'says "cannot write $work/none/figures"'
bench --counts --page "$work/none/page"
proves a_page_that_could_not_be_written_is_not_measured_for refused 'says "cannot write $work/none/page"'
rm "$pair"
bench --counts
proves without_what_is_measured_nothing_is_measured refused 'says "make bench builds"'
bench --conuts
proves an_option_that_does_not_exist_is_named refused 'says "no such option: --conuts"'
finish
