/* B38: another process opens a handle twice, closes it once and frees it wrongly; the exporter frees early. With OLD_FORM=1 it
 * opens by the name's first form. */
#include <dlfcn.h>

#include "case.h"

#include <sys/wait.h>

static void importer(int from)
{
    CUresult (*opening)(CUdeviceptr *, CUipcMemHandle, unsigned) = cuIpcOpenMemHandle;
    CUipcMemHandle handle;
    CUdeviceptr a = 0, b = 0;

    begin_case();
    if (getenv("OLD_FORM"))
        opening = (CUresult (*)(CUdeviceptr *, CUipcMemHandle, unsigned))dlsym(RTLD_DEFAULT, "cuIpcOpenMemHandle");
    if (read(from, &handle, sizeof handle) != sizeof handle)
        exit(93);
    SHOW(opening(&a, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    SHOW(opening(&b, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    FACT(a == b);
    SHOW(cuMemFree(a));
    SHOW(cuMemFreeAsync(a, NULL));
    SHOW(cuIpcCloseMemHandle(a));
    if (getenv("CLOSE_ALL") && *getenv("CLOSE_ALL")) {
        SHOW(cuIpcCloseMemHandle(b));
        SHOW(cuIpcCloseMemHandle(b));
    }
    exit(0);
}

int main(void)
{
    CUipcMemHandle handle;
    CUdeviceptr p = 0;
    int channel[2], status = 0;
    pid_t child;

    if (pipe(channel) != 0 || (child = fork()) < 0)
        return 92;
    if (child == 0)
        importer(channel[0]);
    begin_case();
    SHOW(cuMemAlloc(&p, 4096));
    CUresult exported = cuIpcGetMemHandle(&handle, p);
    if (exported || write(channel[1], &handle, sizeof handle) != sizeof handle)
        return 91;
    waitpid(child, &status, 0);
    FACT(status);
    SHOW(cuMemFree(p));
    return 0;
}
