#!/bin/bash
# The check of includes notices each direction that must not be.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
check=$PWD/scripts/check-includes

tree() { # a tree in which all is well
    rm -rf "$work/tree"
    mkdir -p "$work/tree"/{include,core,interpose,plugins/common,scripts/nxmem-check}
    cd "$work/tree" || exit 1
    echo '#include <stdint.h>' >include/abi.h
    printf '#include <stdbool.h>\n#include "abi.h"\n' >core/block.h
    printf '#include "block.h"\n\n#include <unistd.h>\n' >core/block.c
    echo '#include <cuda.h>' >interpose/cuda_types.h
    printf '#include "cuda_types.h"\n#include "core/block.h"\n' >interpose/hook.c
    echo '#include "abi.h"' >plugins/common/kit.h
    printf '#include <cuda.h>\n#include "common/kit.h"\n' >plugins/direct.c
}
tree
run "$check" .
proves "a tree in order passes" 'exits 0'

refused() { # name, file, line to add
    tree
    echo "$3" >>"$2"
    run "$check" .
    proves "$1" 'exits 1' "prints '$2'"
}
refused "core must not know interpose" core/block.c '#include "interpose/cuda_types.h"'
refused "core must not know CUDA" core/block.c '#include <cuda_runtime_api.h>'
refused "core must not know plugins" core/block.h '#include "plugins/common/kit.h"'
refused "include must not know core" include/abi.h '#include "../core/block.h"'
refused "include needs nothing of libc but integers" include/abi.h '#include <stdlib.h>'
refused "CUDA's headers have one door into interpose" interpose/hook.c '#include <cudaTypedefs.h>'
refused "plugins must not know core" plugins/direct.c '#include "core/block.h"'
refused "plugins must not know interpose" plugins/direct.c '  #  include "interpose/cuda_types.h"'
refused "the tools must not know interpose" scripts/tool.c '#include "interpose/cuda_types.h"'
refused "the judge of plugins takes nothing of core" scripts/nxmem-check/rule.c '#include "core/block.h"'
refused "an include that is nowhere is named" core/block.c '#include "nowhere.h"'
tree
printf '#include <unistd.h>\n#include "block.h"\n' >core/block.c
run "$check" .
proves "a file's own header comes first" 'exits 1' 'prints "its own header first"'
mkdir "$work/empty"
run "$check" "$work/empty"
proves "a tree without sources is an error" 'exits 2'
finish
