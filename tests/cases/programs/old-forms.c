/* The forms that programs of long ago ask for by name: what they open, register, end and detach counts as with today's. */
#include <dlfcn.h>

#include "case.h"

static void *by_name(const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);

    printf("%s %s\n", name, found ? "is there" : "is not there");
    return found;
}

/* Ends the stream, and lets its handle come back. */
static void streams(void)
{
    CUresult (*destroy)(CUstream) = (CUresult (*)(CUstream))by_name("cuStreamDestroy");
    CUdeviceptr p = 0;
    CUstream stream;

    SHOW(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    SHOW(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    SHOW(destroy(stream)); /* the capture goes with it */
    SHOW(cuMemAlloc_v2(&p, 1000));
    SHOW(cuMemFree_v2(p));
    SHOW(destroy((CUstream)0));
}

static void host_memory(void)
{
    CUresult (*registered)(void *, size_t, unsigned) = (CUresult (*)(void *, size_t, unsigned))by_name("cuMemHostRegister");
    static char memory[8192] __attribute__((aligned(4096)));

    SHOW(registered(memory, sizeof memory, 0));
    SHOW(registered(memory, sizeof memory, 0));
    SHOW(cuMemHostUnregister(memory));
    SHOW(registered(memory, 4096, 0)); /* stays */
}

static void contexts(void)
{
    CUresult (*detach)(CUcontext) = (CUresult (*)(CUcontext))by_name("cuCtxDetach");
    CUresult (*attach)(CUcontext *, unsigned) = (CUresult (*)(CUcontext *, unsigned))by_name("cuCtxAttach");
    CUcontext mine = NULL, same = NULL, before = NULL, now = NULL;
    CUdeviceptr p = 0, q = 0;

    SHOW(cuCtxGetCurrent(&before));
    SHOW(cuCtxCreate(&mine, NULL, 0, 0));
    SHOW(attach(&same, 0));
    FACT(same == mine);
    SHOW(cuMemAlloc_v2(&p, 2000));
    SHOW(detach(mine)); /* attached still */
    SHOW(cuMemAlloc_v2(&q, 3000));
    SHOW(cuMemFree_v2(p));
    SHOW(detach(before)); /* not the current one */
    SHOW(cuMemFree_v2(q));
    SHOW(cuMemAlloc_v2(&q, 4000)); /* goes with its context */
    SHOW(detach(mine));
    SHOW(cuCtxGetCurrent(&now));
    FACT(now == before);
    SHOW(cuCtxSetCurrent(before));
    SHOW(cuMemFree_v2(q));
    SHOW(cuMemAlloc_v2(&q, 5000));
    SHOW(cuMemFree_v2(q));
}

int main(void)
{
    begin_case();
    streams();
    host_memory();
    contexts();
    return 0;
}
