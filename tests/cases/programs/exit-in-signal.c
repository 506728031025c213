/* A signal handler ends the process by _exit while the thread is anywhere inside an allocation: it ends. */
#include "case.h"

#include <signal.h>

static void leave(int number)
{
    (void)number;
    _exit(4);
}

int main(void)
{
    CUdeviceptr p = 0;
    unsigned turns = 0;

    begin_case();
    signal(SIGALRM, leave);
    cuMemAlloc(&p, 100);
    cuMemFree(p);
    unsigned last = (unsigned)getpid() % 97 + 20;
    for (;;) {
        if (++turns == last) /* somewhere within the next microseconds */
            ualarm(1 + (unsigned)getpid() % 53, 0);
        cuMemAlloc(&p, 100);
        cuMemFree(p);
    }
}
