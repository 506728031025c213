/* Memory of another interface: imported, mapped twice, one mapping left. A mapping goes back through cuMemFree and is no
 * allocation. */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "case.h"

int main(void)
{
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC handle = { .type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, .size = 1 << 20 };
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC whole = { .size = 1 << 20 }, half = { .offset = 1 << 19, .size = 1 << 19 };
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC beyond = { .offset = 1 << 20, .size = 1 << 20 };
    CUexternalMemory memory = NULL, left = NULL;
    CUdeviceptr p = 0, q = 0, none = MARK;

    begin_case();
    handle.handle.fd = memfd_create("external", 0);
    if (ftruncate(handle.handle.fd, 1 << 20) != 0)
        return 97;
    SHOW(cuImportExternalMemory(&memory, &handle));
    SHOW(cuExternalMemoryGetMappedBuffer(&p, memory, &whole));
    SHOW(cuExternalMemoryGetMappedBuffer(&q, memory, &half));
    SHOW(cuExternalMemoryGetMappedBuffer(&none, memory, &beyond));
    FACT(none == MARK);
    SHOW(cuMemsetD8_v2(p, 7, 1000));
    SHOW(cuMemFree_v2(p));
    SHOW(cuMemFree_v2(p));
    SHOW(cuDestroyExternalMemory(memory));
    handle.handle.fd = memfd_create("left", 0);
    if (ftruncate(handle.handle.fd, 1 << 20) != 0)
        return 97;
    SHOW(cuImportExternalMemory(&left, &handle)); /* stays open; of the first, the half stays mapped */
    SHOW(cuImportExternalMemory(&memory, NULL));
    return 0;
}
