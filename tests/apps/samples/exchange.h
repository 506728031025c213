/* A library that brings a CUDA runtime of its own along, and shares memory with whoever uses it. */
#ifndef EXCHANGE_H
#define EXCHANGE_H

#include <stddef.h>

/* Fills, or makes, or frees device memory; the runtime's code. */
int exchange_fill(void *device, int value, size_t bytes);
int exchange_make(void **ret_device, size_t bytes);
int exchange_free(void *device);
int exchange_version(void);

#endif
