/* Looks a hooked name up, then leaks: `many LOOKUPS BLOCKS`. */
#include "transcript.h"

#include <dlfcn.h>

int main(int argc, char **argv)
{
    CUdeviceptr p;

    if (argc != 3)
        return 2;
    begin();
    for (int i = 0; i < atoi(argv[1]); i++)
        if (!dlsym(RTLD_DEFAULT, "cuMemAlloc_v2"))
            return 3;
    for (int i = 0; i < atoi(argv[2]); i++)
        if (cuMemAlloc(&p, 256))
            return 4;
    return 0;
}
