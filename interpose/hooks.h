/* Declarations of every hook, generated from the rows. The linker name of hook_X is X itself, so the
 * C code speaks of hook_cuMemFree_v2 while the shim exports cuMemFree_v2. Owns nothing.
 *
 * &hook_X is always ours: the shim is linked -Bsymbolic-functions, nobody's definition can stand in.
 */
#ifndef NXM_HOOKS_H
#define NXM_HOOKS_H

#include "cuda_types.h"

#define NXM_HOOK_DECLARE(symbol, like) \
    extern __typeof__(like) hook_##symbol __asm__(#symbol) __attribute__((visibility("default")));
#define DRIVER(symbol, like, class_) NXM_HOOK_DECLARE(symbol, like)
#define RUNTIME(symbol, like, class_) NXM_HOOK_DECLARE(symbol, like)
#include "cuda_api.def"

#endif
