/* A context is destroyed while threads go on allocating in it, and free two blocks of three: whoever destroys it comes back. What the
 * threads see meanwhile is nobody's promise. */
#include "case.h"

#include <stdatomic.h>

static CUcontext context;
static atomic_int stop;

static void *go_on(void *unused)
{
    cuCtxSetCurrent(context);
    for (unsigned i = 0; !atomic_load(&stop); i++) {
        CUdeviceptr block = 0;

        if (cuMemAlloc(&block, 1000) != CUDA_SUCCESS)
            break;
        if (i % 3 != 0)
            cuMemFree(block);
    }
    return unused;
}

int main(void)
{
    pthread_t threads[4];

    begin_case();
    SHOW(cuCtxCreate(&context, NULL, 0, 0));
    SHOW(cuCtxPopCurrent(NULL));
    for (int i = 0; i < 4; i++) {
        if (pthread_create(&threads[i], NULL, go_on, NULL) != 0)
            return 98;
    }
    usleep(20000);
    SHOW(cuCtxDestroy(context));
    atomic_store(&stop, 1);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
