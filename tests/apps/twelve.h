/* A library that was built with CUDA 12 and is loaded by a program built with CUDA 13. */
#ifndef APPS_TWELVE_H
#define APPS_TWELVE_H

/* Allocates and frees `bytes` through its own runtime, and keeps another block of half the size. Returns that runtime's
 * version, or a negative CUDA error. */
int twelve_run(unsigned long bytes);

#endif
