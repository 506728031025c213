/* The path of the program that runs. Any thread, also when the one that began the process has left it: then /proc/self is empty. No
 * locks.
 */
#ifndef NXM_PROGRAM_H
#define NXM_PROGRAM_H

#include <stddef.h>

/* Returns its length; 0, and "", when it cannot be had. */
size_t nxm_program_path(char *ret_path, size_t capacity);

#endif
