/* Whether a library can be preloaded into a program, read from the program's file. Owns nothing; one thread. */
#ifndef NXM_PROBE_PROGRAM_H
#define NXM_PROBE_PROGRAM_H

#include <stdbool.h>

/* Follows scripts to their interpreter. 0, or the status a shell would give: 126 cannot be executed, 127 an
 * interpreter is missing, each with a line on standard error. A program that can be started but not
 * preloaded (static, of another machine, with privileges, not of glibc) is 0 with a warning there.
 * `show`: what was found goes to standard output. */
int probe_program(const char *path, bool show);

#endif
