/* B05: three allocations and two frees through the runtime, which is linked shared or static. */
#include "case.h"

int main(void)
{
    void *block[3] = { 0 };

    alarm(200);
    for (int i = 0; i < 3; i++)
        SHOW_RT(cudaMalloc(&block[i], (size_t)1000 * (size_t)(i + 1)));
    SHOW_RT(cudaFree(block[0]));
    SHOW_RT(cudaFree(block[1]));
    return 0;
}
