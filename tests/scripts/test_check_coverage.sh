#!/bin/bash
# The check of coverage notices a name without a row, one with two, and CUDA that is not there.
cd "$(dirname "$0")/../.." || exit 1
. tests/shell.sh
mkdir "$work/tree"
cp -r scripts interpose "$work/tree/"
check=$work/tree/scripts/check-coverage
rows=$work/tree/interpose

run "$check"
proves "every name has a row" 'exits 0' 'prints "each has a row"'
forgets() { # name, file
    cp interpose/*.def "$rows/"
    sed -i "/^[A-Z]*($1[,)]/d" "$rows/$2"
    run "$check"
    proves "a forgotten $1 is named" 'exits 1' "prints ' $1'"
}
forgets cuMemAllocAsync_ptsz cuda_api.def
forgets cuMemcpyHtoD_v2_ptds cuda_passed.def
forgets cudaMallocMipmappedArray cuda_api.def
forgets cuGraphLaunch cuda_passed.def
cp interpose/*.def "$rows/"
echo 'PASSED(cuMemAlloc_v2)' >>"$rows/cuda_passed.def"
run "$check"
proves "a name has one row" 'exits 1' 'prints "more than one row: cuMemAlloc_v2"'
cp interpose/*.def "$rows/"

# A toolkit of tomorrow: one more function in a header, in the typedefs, in the stub library.
headers=$(scripts/find-cuda headers)
libraries=$(dirname "$(ls "${headers%/include}"/{lib64,targets/*/lib,lib}/stubs/libcuda.so 2>/dev/null | head -n 1)")
mkdir -p "$work/include" "$work/lib/stubs"
cp -r "$headers"/. "$work/include/"
cp "$libraries/libcuda.so" "$work/lib/stubs/"
ln -s "$libraries"/../libcudart.so "$work/lib/"
echo 'CUresult CUDAAPI cuMemAllocTomorrow(CUdeviceptr *address);' >>"$work/include/cuda.h"
run "$check" "$work/include" "$work/lib"
proves "a name of tomorrow's header is noticed" 'exits 1' 'prints cuMemAllocTomorrow'
cp "$headers/cuda.h" "$work/include/"
echo 'typedef CUresult (CUDAAPI *PFN_cuMemFreeTomorrow_v14000)(CUdeviceptr address);' >>"$work/include/cudaTypedefs.h"
run "$check" "$work/include" "$work/lib"
proves "a name of tomorrow's typedefs is noticed" 'exits 1' 'prints "typedefs without a row: cuMemFreeTomorrow"'
cp "$headers/cudaTypedefs.h" "$work/include/"
cp "$libraries/libcuda.so" "$work/old.so"
echo 'int cuStreamTomorrow(void); int cuStreamTomorrow(void) { return 0; }' >"$work/more.c"
nm -D --defined-only "$work/old.so" | awk '$3 ~ /^cu/ { print "int " $3 "(void); int " $3 "(void) { return 0; }" }' | sort -u >>"$work/more.c"
gcc -shared -fPIC -o "$work/lib/stubs/libcuda.so" "$work/more.c"
run "$check" "$work/include" "$work/lib"
proves "a name of tomorrow's library is noticed" 'exits 1' 'prints cuStreamTomorrow'
run "$check" /nonexistent "$work/lib"
proves "without headers it says so" 'exits 2' 'says "no CUDA headers"'
run "$check" "$headers" /nonexistent
proves "without the stub library it says so" 'exits 2' 'says "no stub library"'
finish
