/* Inter-process memory: exports of our blocks are answered, imports are mappings with open counts of their own. */
#include "hook.h"
#include "observe.h"
#include "owned.h"
#include "scope.h"
#include "serve.h"
#include "summary.h"

#include "core/log.h"
#include "core/stack.h"

/* A block from a mechanism whose memory legacy IPC cannot carry fails as the driver would, with one hint. */
static bool exportable(CUdeviceptr address)
{
    struct nxm_block block;

    if (nxm_blocks_containing(nxm_table(NXM_TABLE_MEMORY), address, &block) != NXM_OK)
        return !nxm_owned_contains(address);
    if (!block.allocator)
        return true;
    if (block.state != NXM_BLOCK_LIVE) /* freed, whoever still has it */
        return false;
    const struct nxm_scope *scope = (const struct nxm_scope *)(uintptr_t)block.tag;
    if (scope->companion.vtable.traits & NXMEM_CUDA_TRAIT_LEGACY_IPC)
        return true;
    static int once;
    nxm_log_once(&once, "cuIpcGetMemHandle: memory of mechanism %s cannot be exported; set NXMEM_PLUGIN=direct for programs "
                 "that share memory between processes", nxm_scope_mechanism());
    return false;
}

CUresult hook_cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address)
{
    NXM_NEEDS(cuIpcGetMemHandle);
    enum nxm_mode mode = nxm_enter(NXM_CALLER, false);
    CUresult result;

    if (mode == NXM_MODE_SERVE && !exportable(address))
        result = CUDA_ERROR_INVALID_VALUE;
    else
        result = nxm_real.cuIpcGetMemHandle(handle, address);
    nxm_leave(mode);
    return result;
}

/* Sizes of imports are not told by the handle; the record of a mapping counts how often it was opened. */
static void opened(CUdeviceptr address, enum nxm_api own)
{
    struct nxm_blocks *imported = nxm_table(NXM_TABLE_IMPORTED);
    struct nxm_block block = { .address = address, .class_ = NXM_CLASS_IMPORTED, .device = -1, .tag = 1, .state = NXM_BLOCK_LIVE };
    struct nxm_block known;
    int result = NXM_EEXIST;

    block.api = (uint16_t)nxm_label_take(own, 0);
    block.stack = nxm_stack_capture(nxm_options()->stacks);
    while (result == NXM_EEXIST && nxm_blocks_count(imported, address, 1, &known) != NXM_OK) {
        block.id = nxm_block_next_id();
        result = nxm_blocks_insert(imported, &block);
    }
}

static CUresult open_handle(const void *caller, enum nxm_api own, __typeof__(nxm_real.cuIpcOpenMemHandle_v2) real,
                            CUdeviceptr *address, CUipcMemHandle handle, unsigned flags)
{
    enum nxm_mode mode = nxm_enter(caller, true);
    CUresult result = real(address, handle, flags);

    if (result == CUDA_SUCCESS && mode == NXM_MODE_SERVE)
        opened(*address, own);
    nxm_leave(mode);
    return result;
}

CUresult hook_cuIpcOpenMemHandle_v2(CUdeviceptr *address, CUipcMemHandle handle, unsigned flags)
{
    NXM_NEEDS(cuIpcOpenMemHandle_v2);
    return open_handle(NXM_CALLER, NXM_API_cuIpcOpenMemHandle_v2, nxm_real.cuIpcOpenMemHandle_v2, address, handle, flags);
}

CUresult hook_cuIpcOpenMemHandle(CUdeviceptr *address, CUipcMemHandle handle, unsigned flags)
{
    NXM_NEEDS(cuIpcOpenMemHandle);
    return open_handle(NXM_CALLER, NXM_API_cuIpcOpenMemHandle, nxm_real.cuIpcOpenMemHandle, address, handle, flags);
}

static CUresult real_close(void *address)
{
    return nxm_real.cuIpcCloseMemHandle(*(CUdeviceptr *)address);
}

CUresult hook_cuIpcCloseMemHandle(CUdeviceptr address)
{
    NXM_NEEDS(cuIpcCloseMemHandle);
    enum nxm_mode mode = nxm_enter(NXM_CALLER, false);
    struct nxm_blocks *imported = nxm_table(NXM_TABLE_IMPORTED);
    struct nxm_block open;
    bool counted = mode == NXM_MODE_SERVE && nxm_blocks_find(imported, address, &open) == NXM_OK;
    CUresult result = counted ? real_close(&address)
                              : nxm_observe_free(mode, NXM_TABLE_IMPORTED, address, real_close, &address);

    if (counted && result == CUDA_SUCCESS && nxm_blocks_count(imported, address, -1, &open) == NXM_OK && open.tag == 0)
        nxm_record_free_end(imported, &open, true);
    nxm_leave(mode);
    return result;
}
