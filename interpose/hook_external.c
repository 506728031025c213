/* Memory that other interfaces own: opened, mapped, observed. A mapped buffer goes back through cuMemFree, a mapped array through
 * cuMipmappedArrayDestroy. */
#include "hook.h"
#include "observe.h"
#include "serve.h"

#include "core/stack.h"

/* An import counts as open until it is destroyed; its bytes are counted where they are mapped. */
static void opened(CUexternalMemory memory)
{
    struct nxm_block block = { .address = (uint64_t)(uintptr_t)memory, .class_ = NXM_CLASS_IMPORTED, .device = -1, .tag = 1 };

    block.api = (uint16_t)nxm_label_take(NXM_API_cuImportExternalMemory, 0);
    nxm_record(nxm_table(NXM_TABLE_IMPORTED), &block);
}

CUresult hook_cuImportExternalMemory(CUexternalMemory *memory, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *handle)
{
    NXM_NEEDS(cuImportExternalMemory);
    enum nxm_mode mode = nxm_enter(NXM_CALLER, true);
    CUresult result = nxm_real.cuImportExternalMemory(memory, handle);

    if (result == CUDA_SUCCESS && mode == NXM_MODE_SERVE)
        opened(*memory);
    nxm_leave(mode);
    return result;
}

static CUresult real_destroy(void *memory)
{
    return nxm_real.cuDestroyExternalMemory(memory);
}

CUresult hook_cuDestroyExternalMemory(CUexternalMemory memory)
{
    NXM_NEEDS(cuDestroyExternalMemory);
    enum nxm_mode mode = nxm_enter(NXM_CALLER, false);
    CUresult result = nxm_observe_free(mode, NXM_TABLE_IMPORTED, (uint64_t)(uintptr_t)memory, real_destroy, memory);

    nxm_leave(mode);
    return result;
}

CUresult hook_cuExternalMemoryGetMappedBuffer(CUdeviceptr *address, CUexternalMemory memory,
                                              const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *buffer)
{
    NXM_NEEDS(cuExternalMemoryGetMappedBuffer);
    enum nxm_mode mode = nxm_enter(NXM_CALLER, true);
    CUresult result = nxm_real.cuExternalMemoryGetMappedBuffer(address, memory, buffer);

    if (result == CUDA_SUCCESS && mode == NXM_MODE_SERVE)
        nxm_observe(NXM_TABLE_MEMORY, NXM_CLASS_IMPORTED, nxm_label_take(NXM_API_cuExternalMemoryGetMappedBuffer, 0), *address,
                    buffer->size);
    nxm_leave(mode);
    return result;
}

CUresult hook_cuExternalMemoryGetMappedMipmappedArray(CUmipmappedArray *array, CUexternalMemory memory,
                                                      const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *descriptor)
{
    NXM_NEEDS(cuExternalMemoryGetMappedMipmappedArray);
    enum nxm_mode mode = nxm_enter(NXM_CALLER, true);
    CUresult result = nxm_real.cuExternalMemoryGetMappedMipmappedArray(array, memory, descriptor);

    if (result == CUDA_SUCCESS && mode == NXM_MODE_SERVE)
        nxm_observe(NXM_TABLE_ARRAYS, NXM_CLASS_IMPORTED,
                    nxm_label_take(NXM_API_cuExternalMemoryGetMappedMipmappedArray, 0), (uint64_t)(uintptr_t)*array, 0);
    nxm_leave(mode);
    return result;
}
