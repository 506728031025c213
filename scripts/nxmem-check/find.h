/* Which file a plugin's name on the command line means. Owns nothing; one thread. */
#ifndef NXMEM_CHECK_FIND_H
#define NXMEM_CHECK_FIND_H

#include <stdbool.h>

/* A path, or as NXMEM_PLUGIN has it a short name, looked up beside the shim; then a file in the folder one is in. Writes the
 * file's whole path (room for PATH_MAX bytes), or says on standard error that there is none. */
bool find_plugin(const char *word, char *ret_path);

#endif
