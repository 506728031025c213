/* Captures that begin and go before the first allocation, with their stream or with their context: none is open after. */
#include "case.h"

int main(int argc, char **argv)
{
    CUcontext context;
    CUstream stream;
    CUdeviceptr p = 0;

    (void)argc;
    begin_case();
    if (strcmp(argv[1], "stream") == 0) {
        SHOW(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        SHOW(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
        SHOW(cuStreamDestroy(stream));
    } else if (strcmp(argv[1], "release") == 0) {
        SHOW(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        SHOW(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
        SHOW(cuDevicePrimaryCtxRelease(0));
        begin_case();
    } else {
        SHOW(cuCtxCreate(&context, NULL, 0, 0));
        SHOW(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        SHOW(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
        SHOW(cuCtxDestroy(context));
    }
    SHOW(cuMemAlloc(&p, 1000));
    SHOW(cuMemFree(p));
    return 0;
}
