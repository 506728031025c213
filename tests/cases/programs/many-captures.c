/* More captures at once than anybody keeps a list of: a free outside does not disturb those that are still open. */
#include "case.h"

enum { CAPTURES = 70 };

int main(void)
{
    CUstream stream[CAPTURES];
    CUgraph graph = NULL;
    CUdeviceptr p = 0;
    int failures = 0;

    begin_case();
    SHOW(cuMemAlloc(&p, 1000));
    for (int i = 0; i < CAPTURES; i++)
        failures += cuStreamCreate(&stream[i], CU_STREAM_NON_BLOCKING) ||
                    cuStreamBeginCapture(stream[i], CU_STREAM_CAPTURE_MODE_RELAXED);
    for (int i = 0; i + 4 < CAPTURES; i++)
        failures += cuStreamEndCapture(stream[i], &graph) || cuGraphDestroy(graph);
    FACT(failures);
    SHOW(cuMemFree(p));
    for (int i = CAPTURES - 4; i < CAPTURES; i++)
        SHOW(cuStreamEndCapture(stream[i], &graph));
    return 0;
}
