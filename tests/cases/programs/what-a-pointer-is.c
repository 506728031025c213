/* Pointers in the middle of blocks, asked about in every way, by blocks of each kind: singular is plural, one block's setting is
 * its own, a freed block is nobody's, and what cannot be answered touches nothing. */
#include "case.h"

static const struct {
    CUpointer_attribute attribute;
    size_t size;
    const char *name;
} asked[] = {
#define ASKED(name, type) { CU_POINTER_ATTRIBUTE_##name, sizeof(type), #name }
    ASKED(MEMORY_TYPE, unsigned), ASKED(SYNC_MEMOPS, unsigned), ASKED(IS_MANAGED, unsigned),
    ASKED(DEVICE_ORDINAL, int), ASKED(RANGE_SIZE, size_t), ASKED(MAPPED, unsigned),
    ASKED(ALLOWED_HANDLE_TYPES, unsigned long long), ASKED(ACCESS_FLAGS, int), ASKED(IS_HW_DECOMPRESS_CAPABLE, unsigned),
};
enum { ASKED_COUNT = sizeof asked / sizeof asked[0] };

static unsigned long long one(CUpointer_attribute attribute, CUdeviceptr at)
{
    unsigned long long value = 0;

    return cuPointerGetAttribute(&value, attribute, at) == CUDA_SUCCESS ? value : MARK;
}

static void compare(const char *what, CUdeviceptr at)
{
    CUpointer_attribute attributes[ASKED_COUNT];
    unsigned long long values[ASKED_COUNT];
    void *places[ASKED_COUNT];

    printf("-- %s\n", what);
    for (size_t i = 0; i < ASKED_COUNT; i++) {
        attributes[i] = asked[i].attribute;
        values[i] = 0;
        places[i] = &values[i];
    }
    SHOW(cuPointerGetAttributes(ASKED_COUNT, attributes, places, at));
    for (size_t i = 0; i < ASKED_COUNT; i++) {
        unsigned long long single = MARK;
        CUresult result = cuPointerGetAttribute(&single, asked[i].attribute, at);
        printf("%s -> %d", asked[i].name, (int)result);
        if (result == CUDA_SUCCESS)
            printf(", %s", memcmp(&single, &values[i], asked[i].size) == 0 ? "as together" : "NOT as together");
        else
            printf(", %s", single == MARK ? "untouched" : "TOUCHED");
        printf(", %llu\n", values[i]);
    }
}

/* What natively is an address or a number of the driver's: only how it stands to the others. */
static void relate(CUdeviceptr block, size_t bytes, CUcontext context, CUmemoryPool pool)
{
    CUdeviceptr base = MARK, at = block + bytes / 2;
    size_t size = 7;

    SHOW(cuMemGetAddressRange_v2(&base, &size, at));
    FACT(base == block);
    FACT(size == bytes);
    SHOW(cuMemGetAddressRange_v2(NULL, &size, at));
    SHOW(cuMemGetAddressRange_v2(&base, NULL, block + bytes - 1));
    SHOW(cuMemGetAddressRange_v2(NULL, NULL, block));
    FACT(one(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, at) == block);
    FACT(one(CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, at) <= block);
    FACT(one(CU_POINTER_ATTRIBUTE_MAPPING_SIZE, at) >= bytes);
    FACT(one(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, at) == at);
    FACT(one(CU_POINTER_ATTRIBUTE_CONTEXT, at) == (uintptr_t)context);
    FACT(one(CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, at) == (uintptr_t)pool);
    FACT(one(CU_POINTER_ATTRIBUTE_BUFFER_ID, at) == one(CU_POINTER_ATTRIBUTE_BUFFER_ID, block));
    FACT(one(CU_POINTER_ATTRIBUTE_HOST_POINTER, at) == MARK);
}

static void set(CUdeviceptr at, CUdeviceptr neighbour)
{
    unsigned on = 1, off = 0;

    SHOW(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at));
    FACT(one(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at));
    FACT(one(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, neighbour));
    SHOW(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at));
    SHOW(cuPointerSetAttribute(&off, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at));
    FACT(one(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at));
    SHOW(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_IS_MANAGED, at));
    SHOW(cuPointerSetAttribute(NULL, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at));
}

/* An error of the whole question, whatever the pointer. */
static void refused(CUdeviceptr at)
{
    CUpointer_attribute attributes[2] = { CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUpointer_attribute)9999 };
    unsigned long long values[2] = { MARK, MARK };
    void *places[2] = { &values[0], &values[1] };
    size_t size = 7;

    SHOW(cuPointerGetAttributes(2, attributes, places, at));
    SHOW(cuPointerGetAttributes(0, attributes, places, at));
    SHOW(cuPointerGetAttributes(1, NULL, places, at));
    SHOW(cuPointerGetAttribute(NULL, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at));
    SHOW(cuPointerGetAttribute(&values[0], (CUpointer_attribute)9999, at));
    sim_fail("cuPointerGetAttributes", 1, CUDA_ERROR_UNKNOWN);
    SHOW(cuPointerGetAttributes(1, attributes, places, at));
    sim_fail("cuPointerGetAttribute", 1, CUDA_ERROR_UNKNOWN);
    SHOW(cuPointerGetAttribute(&values[0], CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at));
    sim_fail("cuMemGetAddressRange_v2", 1, CUDA_ERROR_UNKNOWN);
    SHOW(cuMemGetAddressRange_v2(NULL, &size, at));
    FACT(values[0] == MARK && values[1] == MARK && size == 7);
}

static void *without_context(void *at)
{
    size_t size = 7;

    SHOW(cuMemGetAddressRange_v2(NULL, &size, *(CUdeviceptr *)at));
    FACT(size);
    compare("from a thread without a context", *(CUdeviceptr *)at);
    return NULL;
}

int main(void)
{
    CUcontext context = begin_case();
    CUdeviceptr p = 0, q = 0, ordered = 0, managed = 0;
    CUmemoryPool pool = NULL;
    CUstream stream;
    char local[64] = { 0 };
    void *pinned = NULL;

    SHOW(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    SHOW(cuDeviceGetDefaultMemPool(&pool, 0));
    SHOW(cuMemAlloc_v2(&p, 1000));
    SHOW(cuMemAlloc_v2(&q, 3000));
    SHOW(cuMemAllocAsync(&ordered, 5000, stream));
    SHOW(cuStreamSynchronize(stream));
    SHOW(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
    SHOW(cuMemHostAlloc(&pinned, 4096, 0));
    compare("a block", p + 999);
    compare("its neighbour", q);
    compare("an ordered block", ordered + 100);
    compare("managed memory", managed + 1);
    compare("pinned memory", (CUdeviceptr)(uintptr_t)pinned + 1);
    compare("the stack", (CUdeviceptr)(uintptr_t)local);
    relate(p, 1000, context, NULL);
    relate(q, 3000, context, NULL);
    relate(ordered, 5000, NULL, pool);
    FACT(one(CU_POINTER_ATTRIBUTE_BUFFER_ID, p) == one(CU_POINTER_ATTRIBUTE_BUFFER_ID, q));
    set(p, q);
    set(ordered, q);
    refused(p);
    on_another_thread(without_context, &p);
    SHOW(cuMemFree_v2(p));
    SHOW(cuMemFreeAsync(ordered, stream));
    SHOW(cuStreamSynchronize(stream));
    compare("a freed block", p);
    FACT(cuMemGetAddressRange_v2(NULL, NULL, p));
    SHOW(cuMemFree_v2(q));
    SHOW(cuMemFree_v2(managed));
    SHOW(cuMemFreeHost(pinned));
    return 0;
}
