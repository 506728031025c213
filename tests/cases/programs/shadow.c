/* B43: a long random mix of good and bad calls. What is left at the end is printed, for the report to agree with. */
#include "case.h"

enum { SLOTS = 64, TURNS = 6000 };

static uint32_t seed = 12345;
static CUdeviceptr slot[SLOTS];
static size_t size[SLOTS];

static uint32_t next(uint32_t bound)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % bound;
}

static int turn(CUstream stream)
{
    uint32_t i = next(SLOTS), what = next(10);
    CUdeviceptr bad = 0;

    if (what == 0)
        return cuMemAlloc(&bad, SIZE_MAX - next(1000)) != CUDA_ERROR_OUT_OF_MEMORY;
    if (what == 1)
        return cuMemFree(0x10 + next(1000)) != CUDA_ERROR_INVALID_VALUE;
    if (!slot[i]) {
        size[i] = 1 + next(5000);
        return (next(2) ? cuMemAlloc(&slot[i], size[i]) : cuMemAllocAsync(&slot[i], size[i], stream)) != CUDA_SUCCESS;
    }
    CUdeviceptr gone = slot[i];
    slot[i] = 0;
    if (what < 6)
        return cuMemFreeAsync(gone, stream) != CUDA_SUCCESS;
    return cuMemFree(gone) || (what == 9 && cuMemFree(gone) != CUDA_ERROR_INVALID_VALUE);
}

int main(void)
{
    CUstream stream;
    size_t blocks = 0, bytes = 0;
    int failures = 0;

    begin_case();
    SHOW(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < TURNS; i++)
        failures += turn(stream) != 0;
    SHOW(cuStreamSynchronize(stream));
    for (int i = 0; i < SLOTS; i++) {
        blocks += slot[i] != 0;
        bytes += slot[i] ? size[i] : 0;
    }
    FACT(failures);
    FACT(blocks);
    FACT(bytes);
    return 0;
}
