/* Memory allocated while a green context is current: it belongs to the device's primary context and outlives the green one; when
 * the green one was the last to hold the primary context, it goes. */
#include <stdbool.h>

#include "case.h"

static CUgreenCtx make(CUcontext *ret_context)
{
    CUdevResource whole, part;
    CUdevResourceDesc description;
    CUgreenCtx green = NULL;
    unsigned groups = 1;

    SHOW(cuDeviceGetDevResource(0, &whole, CU_DEV_RESOURCE_TYPE_SM));
    SHOW(cuDevSmResourceSplitByCount(&part, &groups, &whole, NULL, 0, 8));
    SHOW(cuDevResourceGenerateDesc(&description, &part, 1));
    SHOW(cuGreenCtxCreate(&green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    SHOW(cuCtxFromGreenCtx(ret_context, green));
    return green;
}

/* Work that lasts until somebody has begun to end the green context, and waits for what is in flight. */
static void CUDA_CB last_until_the_end_begins(void *unused)
{
    (void)unused;
    while (sim_calls("cuCtxSynchronize") == 0 && sim_calls("cuGreenCtxDestroy") == 0)
        usleep(200);
}

int main(int argc, char **argv)
{
    bool held = argc > 1 && strcmp(argv[1], "held") == 0;
    CUcontext primary = NULL, context = NULL, owner = NULL;
    CUdeviceptr p = 0, q = 0, ordered = 0;
    CUstream stream;
    CUgreenCtx green;
    unsigned flags;
    int active;

    alarm(200);
    SHOW(cuInit(0));
    if (held)
        SHOW(cuDevicePrimaryCtxRetain(&primary, 0));
    green = make(&context);
    SHOW(cuCtxSetCurrent(context));
    SHOW(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
    SHOW(cuMemAlloc_v2(&p, 1000));
    SHOW(cuMemAlloc_v2(&q, 2000));
    SHOW(cuMemAllocAsync(&ordered, 3000, stream));
    SHOW(cuStreamSynchronize(stream));
    SHOW(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, p));
    FACT(owner == context);
    FACT(!held || owner == primary);
    SHOW(cuMemFree_v2(p));
    SHOW(cuLaunchHostFunc(stream, last_until_the_end_begins, NULL));
    SHOW(cuMemFreeAsync(ordered, stream)); /* it has not passed when the context goes */
    SHOW(cuGreenCtxDestroy(green));
    SHOW(cuDevicePrimaryCtxGetState(0, &flags, &active));
    FACT(active);
    SHOW(cuDevicePrimaryCtxRetain(&primary, 0));
    SHOW(cuCtxSetCurrent(primary));
    SHOW(cuMemFree_v2(q)); /* there is such a block if something else held the primary context */
    SHOW(cuMemAlloc_v2(&p, 4000)); /* stays */
    return 0;
}
