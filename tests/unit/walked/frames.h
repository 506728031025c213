/* What the libraries of frames.c export. Each calls `callback` once, from below frames of its own kind. */
#ifndef WALKED_FRAMES_H
#define WALKED_FRAMES_H

#include <stddef.h>

typedef void frames_callback(void);
typedef void frames_through_callback(frames_callback *callback);

void frames_call(frames_callback *callback);
void frames_alloca(frames_callback *callback, size_t bytes);
void frames_aligned(frames_callback *callback, size_t bytes);
void frames_deep(frames_callback *callback, unsigned levels);
void frames_sort(frames_callback *callback);                                       /* through libc's qsort */
void frames_through(frames_through_callback *through, frames_callback *callback); /* through code of the caller's */
void frames_raise(int signal);
void frames_trap(void); /* dies of SIGILL, unless somebody jumps out */
void frames_move(void *stack_top, frames_callback *callback);
void frames_strange(frames_callback *callback);

#endif
