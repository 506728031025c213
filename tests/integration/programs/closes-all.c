/* Has no standard streams, closes every descriptor as daemons do, opens a file of its own, and allocates on: `closes-all FILE`. */
#include "transcript.h"

#include <fcntl.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    char bytes[4096];
    CUdeviceptr p;
    int fd;

    begin();
    close(STDOUT_FILENO);
    close(STDERR_FILENO);
    if (argc != 2 || cuMemAlloc(&p, 256))
        return 2;
    if (write(STDOUT_FILENO, "nowhere", 7) != -1 || write(STDERR_FILENO, "nowhere", 7) != -1)
        return 6;
    for (fd = 0; fd < 1024; fd++)
        close(fd);
    memset(bytes, 'x', sizeof bytes);
    for (int i = 0; i < 300; i++)
        if (open(argv[1], O_RDWR | O_CREAT, 0666) != i) /* whatever number the journal had */
            return 3;
    for (int i = 0; i < 16; i++)
        if (write(0, bytes, sizeof bytes) != sizeof bytes)
            return 4;
    for (int i = 0; i < 150000; i++)
        if (cuMemAlloc(&p, 256))
            return 5;
    return 0;
}
