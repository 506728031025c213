/* Device memory of the program: allocating it from the plugin or the driver, and freeing it by ownership. Owns nothing; any
 * thread; no lock across the driver or the plugin. What each hook of the family comes down to.
 */
#ifndef NXM_SERVE_H
#define NXM_SERVE_H

#include "core/blocks.h"
#include "label.h"
#include "order.h"
#include "scope.h"

/* The driver's own call, for when it serves: called at most twice (once more after a drain when it is out of memory). */
typedef CUresult (*nxm_native_call)(void *argument, CUdeviceptr *ret_address);

/* Allocates `bytes` (> 0) from the plugin. *ret_address is written only on success. The scope was entered by the caller,
 * who leaves it. `call`: the driver's own, for when it is our memory that is out, not the device's. */
CUresult nxm_serve_allocate(struct nxm_scope *scope, const struct nxm_order *order, uint64_t bytes, enum nxm_api api,
                            nxm_native_call call, void *argument, CUdeviceptr *ret_address);

/* The second half of it, for who has asked the plugin himself: `result` and *error say what came of it, `given` is nxm_lane_given
 * before it. *block is what was asked for, and recorded if `result` is 0. */
CUresult nxm_serve_answered(struct nxm_scope *scope, const struct nxm_order *order, struct nxm_block *block, uint64_t given, int result,
                            struct nxm_error *error, nxm_native_call call, void *argument, CUdeviceptr *ret_address);

/* The driver serves; the block is recorded with this class. `order` may be NULL: context and device unknown. */
CUresult nxm_serve_native(const struct nxm_order *order, uint64_t bytes, enum nxm_class class_, enum nxm_api api,
                          uint64_t tag, nxm_native_call call, void *argument, CUdeviceptr *ret_address);

/* Frees by ownership. `order`: of the free (SYNCHRONOUS or STREAM). `call`: the driver's own free. */
typedef CUresult (*nxm_native_free)(void *argument);
CUresult nxm_serve_free(CUdeviceptr address, const struct nxm_order *order, nxm_native_free call, void *argument);

bool nxm_is_plugins_block(CUdeviceptr address); /* live, or on its way back */

/* After X1: the driver's own free where the block is the driver's, counted either way. */
CUresult nxm_serve_free_late(CUdeviceptr address, nxm_native_free call, void *argument);

/* A record of memory that the driver served: inserted after success, claimed before its free and settled after it. Any
 * table but for the free of plugin blocks. */
void nxm_record(struct nxm_blocks *table, struct nxm_block *block);
void nxm_record_free_begin(struct nxm_blocks *table, uint64_t address, struct nxm_block *ret_block); /* id 0: not known */
void nxm_record_free_end(struct nxm_blocks *table, const struct nxm_block *block, bool freed);

#endif
