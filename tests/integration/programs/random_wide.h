/* What wide programs do beside the rest: streams that have no handle of their own, questions about pointers, a second device, pools
 * that are trimmed. For random.c alone. */
#ifndef RANDOM_WIDE_H
#define RANDOM_WIDE_H

#include "random.h"

CUresult cuMemAllocAsync_ptsz(CUdeviceptr *address, size_t bytes, CUstream stream);
CUresult cuMemsetD8Async_ptsz(CUdeviceptr address, unsigned char byte, size_t bytes, CUstream stream);
CUresult cuMemFreeAsync_ptsz(CUdeviceptr address, CUstream stream);
CUresult cuStreamSynchronize_ptsz(CUstream stream);

/* The streams without a handle of their own: the legacy one, and the calling thread's under each of its names. */
static void stream_without_handle(void)
{
    static const struct {
        CUstream stream;
        int per_thread;
    } names[] = { { NULL, 0 }, { CU_STREAM_LEGACY, 0 }, { NULL, 1 }, { CU_STREAM_PER_THREAD, 0 }, { CU_STREAM_PER_THREAD, 1 } };
    unsigned n = pick(5), end = pick(3);
    CUstream stream = names[n].stream;
    size_t bytes = sizes[pick(sizeof sizes / sizeof *sizes)];
    CUdeviceptr address = MARK;
    int b = free_block(), context = current();
    CUresult result = names[n].per_thread ? cuMemAllocAsync_ptsz(&address, bytes, stream) : cuMemAllocAsync(&address, bytes, stream);

    if (say("alloc on a stream without handle", (int)n, result) != CUDA_SUCCESS) {
        FACT(address == MARK);
        return;
    }
    say("memset", (int)n, names[n].per_thread ? cuMemsetD8Async_ptsz(address, 7, bytes, stream) : cuMemsetD8Async(address, 7, bytes, stream));
    if (end == 0 || b < 0)
        say("free", (int)n, names[n].per_thread ? cuMemFreeAsync_ptsz(address, stream) : cuMemFreeAsync(address, stream));
    if (say("wait", (int)n, names[n].per_thread ? cuStreamSynchronize_ptsz(stream) : cuStreamSynchronize(stream)))
        return; /* a capture forbids it: the block stays, and is used no more */
    if (end == 1 && b >= 0)
        say("cuMemFree", (int)n, cuMemFree(address));
    else if (end == 2 && b >= 0)
        blocks[b] = (struct block){ ASYNC, address, bytes, -1, device_of(context), -1 };
}

/* What a pointer answers, at its start and inside. */
static void question(void)
{
    int b = any_block();
    CUdeviceptr base = 0, inside;
    CUcontext owner = NULL;
    size_t bytes = 0;
    int device = -1;
    unsigned type = 0;

    if (b < 0 || blocks[b].kind == NODE || blocks[b].kind == CREATED)
        return;
    inside = blocks[b].address + pick((unsigned)blocks[b].bytes);
    say("type", b, cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, inside));
    say("device", b, cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, inside));
    say("context", b, cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, inside));
    printf("type %u device %d owner %d\n", type, device, blocks[b].context >= 0 && owner == contexts[blocks[b].context]);
    if (!say("cuMemGetAddressRange", b, cuMemGetAddressRange(&base, &bytes, inside)))
        printf("at %lld of %zu\n", (long long)(inside - base), bytes);
}

/* The second device's primary context goes and comes. */
static void second_device(void)
{
    CUcontext held = NULL;

    if (!contexts[3])
        return;
    if (pick(2)) { /* not the last: nothing ends */
        if (!say("cuDevicePrimaryCtxRetain", 1, cuDevicePrimaryCtxRetain(&held, 1)))
            say("cuDevicePrimaryCtxRelease", 1, cuDevicePrimaryCtxRelease(1));
        return;
    }
    if (calm || pick(3))
        return;
    for (int i = 0; i < STREAMS; i++) /* what uses the memory is waited for, and captures are over */
        if (streams[i].handle && device_of(streams[i].context) == 1 && (has_copies(i) || is_capturing(i)))
            return;
    CUresult result = pick(2) ? say("cuDevicePrimaryCtxRelease last", 1, cuDevicePrimaryCtxRelease(1))
                              : say("cuDevicePrimaryCtxReset", 1, cuDevicePrimaryCtxReset(1));
    if (result == CUDA_SUCCESS) {
        context_gone(3);
        say("cuDevicePrimaryCtxRetain", 1, cuDevicePrimaryCtxRetain(&contexts[3], 1));
    }
}

static void trim(void)
{
    say("cuMemPoolTrimTo", 0, cuMemPoolTrimTo(pick(2) && own_pool ? own_pool : default_pool, pick(2) ? 0 : 1 << 20));
}

#endif
