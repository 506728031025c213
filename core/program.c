#include "program.h"

#include <string.h>
#include <unistd.h>

size_t nxm_program_path(char *ret_path, size_t capacity)
{
    ssize_t length = readlink("/proc/self/exe", ret_path, capacity - 1);

    if (length <= 0)
        length = readlink("/proc/thread-self/exe", ret_path, capacity - 1);
    ret_path[length > 0 ? length : 0] = '\0';
    return strlen(ret_path);
}
