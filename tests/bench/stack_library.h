/* What the library under bench_stack exports: the unwinder and the interning of core/ as they are in the shim, in an image of
 * their own, so that their own frames are left out as they are there. */
#ifndef BENCH_STACK_LIBRARY_H
#define BENCH_STACK_LIBRARY_H

#include <stdint.h>

void bench_prepare(void);
uint32_t bench_walk(unsigned depth);    /* our unwinder alone: frames found */
uint32_t bench_chain(unsigned depth);   /* by frame pointers */
uint32_t bench_libc(unsigned depth);    /* glibc's backtrace */
uint32_t bench_capture(unsigned depth); /* walked and interned: the stack's number */
uint32_t bench_intern(unsigned depth);  /* the same without the walk: an hour-old trace is looked up */

#endif
