/* A stream is destroyed while it captures: from then on no capture is open, and memory is served as before. */
#include "case.h"

int main(void)
{
    CUstream stream;
    CUdeviceptr p = 0;

    begin_case();
    SHOW(cuMemAlloc(&p, 1000)); /* the plugin serves */
    SHOW(cuMemFree(p));
    SHOW(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    SHOW(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    SHOW(cuStreamDestroy(stream));
    for (int i = 0; i < 3; i++) {
        SHOW(cuMemAlloc(&p, 1000));
        SHOW(cuMemFree(p));
    }
    SHOW(cuMemAlloc(&p, 1000));
    return 0;
}
