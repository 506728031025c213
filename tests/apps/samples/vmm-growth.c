/* A vector on the device that grows without moving: one reservation, physical pieces mapped as they are needed. */
#include "check.h"

#include <cuda.h>
#include <string.h>

enum { PIECES = 8 };

struct vector {
    CUdeviceptr base;
    size_t reserved, mapped, piece;
    CUmemAllocationProp props;
};

static void reserve(struct vector *v)
{
    memset(v, 0, sizeof *v);
    v->props.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    v->props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CHECK_DRIVER(cuMemGetAllocationGranularity(&v->piece, &v->props, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    v->reserved = PIECES * v->piece;
    CHECK_DRIVER(cuMemAddressReserve(&v->base, v->reserved, 0, 0, 0));
}

static void grow(struct vector *v)
{
    CUmemAccessDesc access = {v->props.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;

    CHECK_DRIVER(cuMemCreate(&handle, v->piece, &v->props, 0));
    CHECK_DRIVER(cuMemMap(v->base + v->mapped, v->piece, 0, handle, 0));
    CHECK_DRIVER(cuMemRelease(handle)); /* the map keeps it */
    CHECK_DRIVER(cuMemSetAccess(v->base + v->mapped, v->piece, &access, 1));
    v->mapped += v->piece;
}

static void destroy(struct vector *v)
{
    CHECK_DRIVER(cuMemUnmap(v->base, v->mapped));
    CHECK_DRIVER(cuMemAddressFree(v->base, v->reserved));
}

int main(void)
{
    size_t before, after, total;
    unsigned char byte;
    CUcontext context;
    struct vector v;

    CHECK_DRIVER(cuInit(0));
    CHECK_DRIVER(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK_DRIVER(cuCtxSetCurrent(context));
    CHECK_DRIVER(cuMemGetInfo(&before, &total));
    reserve(&v);
    for (int i = 0; i < PIECES; i++) {
        grow(&v);
        CHECK_DRIVER(cuMemsetD8(v.base + (size_t)i * v.piece, (unsigned char)(i + 1), v.piece));
        CHECK_DRIVER(cuCtxSynchronize());
        for (int j = 0; j <= i; j++) { /* what was there stayed, at the same addresses */
            CHECK_DRIVER(cuMemcpyDtoH(&byte, v.base + (size_t)(j + 1) * v.piece - 1, 1));
            EXPECT(byte == j + 1);
        }
    }
    CHECK_DRIVER(cuMemGetInfo(&after, &total));
    printf("vmm-growth: grew %d times, %zu pieces' worth of memory in use\n", PIECES, (before - after) / v.piece);
    CHECK_DRIVER(cuMemcpyDtoD(v.base, v.base + v.piece, 2 * v.piece)); /* over a seam */
    CHECK_DRIVER(cuMemcpyDtoH(&byte, v.base + v.piece, 1));
    EXPECT(byte == 3);
    destroy(&v);
    CHECK_DRIVER(cuMemGetInfo(&after, &total));
    printf("vmm-growth: %zu bytes not given back\n", before - after);
    CHECK_DRIVER(cuDevicePrimaryCtxRelease(0));
    return 0;
}
