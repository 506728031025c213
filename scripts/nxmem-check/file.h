/* The plugin's file, before the loader sees it: what the loader takes on trust, or has no words for. Owns nothing. */
#ifndef NXMEM_CHECK_FILE_H
#define NXMEM_CHECK_FILE_H

/* NULL, or why nothing can be loaded from there. */
const char *file_fault(const char *path);

#endif
