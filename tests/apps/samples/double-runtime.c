/* Two runtimes in one process over one driver: memory that one made the other fills and frees, and errors stay apart. */
#include "check.h"
#include "exchange.h"

enum { BYTES = 50000 };

int main(void)
{
    unsigned char *ours, *theirs, last[2];
    int version;

    CHECK(cudaRuntimeGetVersion(&version));
    EXPECT(version != exchange_version());
    CHECK(cudaMalloc((void **)&ours, BYTES));
    EXPECT(exchange_make((void **)&theirs, BYTES) == 0);
    EXPECT(exchange_fill(ours, 8, BYTES) == 0);
    CHECK(cudaMemcpy(theirs, ours, BYTES, cudaMemcpyDeviceToDevice));
    CHECK(cudaMemcpy(last, theirs + BYTES - 2, 2, cudaMemcpyDeviceToHost));
    EXPECT(last[0] == 8 && last[1] == 8);
    EXPECT(exchange_free(ours) == 0);
    CHECK(cudaFree(theirs));
    printf("double-runtime: their error: %d", exchange_make((void **)&theirs, (size_t)1 << 50)); /* more than there is */
    printf(", our last one: %d\n", (int)cudaGetLastError());
    puts("double-runtime: each freed what the other made");
    return 0;
}
