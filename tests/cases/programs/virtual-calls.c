/* B36, B39: calls of virtual memory management on memory that was allocated by other calls, with sizes that would fit if it were
 * mapped: no mechanism's own mapping is seen, or undone. */
#include "case.h"

enum { BYTES = 4 << 20 };

static const CUmemLocation device = { .type = CU_MEM_LOCATION_TYPE_DEVICE };

static void call_all(const char *what, CUdeviceptr p)
{
    CUmemAllocationProp properties = { .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = device };
    CUmemAccessDesc access = { .location = device, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
    CUmemGenericAllocationHandle handle = MARK, own = 0;
    unsigned long long flags = MARK;

    printf("-- %s\n", what);
    SHOW(cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)p));
    SHOW(cuMemGetAccess(&flags, &device, p));
    FACT(handle == MARK && flags == MARK);
    SHOW(cuMemSetAccess(p, BYTES, &access, 1));
    SHOW(cuMemUnmap(p, BYTES));
    SHOW(cuMemAddressFree(p, BYTES));
    SHOW(cuMemCreate(&own, BYTES, &properties, 0));
    SHOW(cuMemMap(p, BYTES, 0, own, 0));
    SHOW(cuMemRelease(own));
    SHOW(cuMemsetD8(p, 1, 1000));
}

int main(void)
{
    CUdeviceptr p = 0, ordered = 0, managed = 0;
    CUstream stream;

    begin_case();
    SHOW(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    SHOW(cuMemAlloc(&p, BYTES));
    SHOW(cuMemAllocAsync(&ordered, BYTES, stream));
    SHOW(cuMemAllocManaged(&managed, BYTES, CU_MEM_ATTACH_GLOBAL));
    SHOW(cuStreamSynchronize(stream));
    call_all("a block", p);
    call_all("an ordered block", ordered);
    call_all("managed memory", managed);
    SHOW(cuMemFree(p));
    SHOW(cuMemFreeAsync(ordered, stream));
    SHOW(cuMemFree(managed));
    return 0;
}
