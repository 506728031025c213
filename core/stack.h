/* Call stacks, captured and interned: one small id per distinct stack. Owns the interned stacks and the
 * names of the images and symbols in them, found when a stack is first seen, so that a later dlclose loses
 * nothing. Any thread; no lock, and no malloc, unless the C library's unwinder is needed (trace.h).
 *
 * Memory is bounded; when it is used up a capture returns 0 and is counted. Never called with a lock of
 * ours held (that unwinder may enter the loader).
 */
#ifndef NXM_STACK_H
#define NXM_STACK_H

#include <stddef.h>
#include <stdint.h>

#define NXM_STACK_DEPTH_MAX 64

struct nxm_frame {
    uint64_t pc;        /* where the call returns to */
    const char *module; /* path as the loader knows it, interned; "" unknown */
    uint64_t offset;    /* pc minus the module's load address */
    const char *symbol; /* the exported function that the call is in, interned; NULL unknown */
    uint64_t symbol_offset; /* pc minus the function's start */
};

/* Warm-up of the unwinder: at first use, outside any lock. Capturing without it does the same. */
void nxm_stack_prepare(void);

/* Frames of our own library at the top are left out. depth 0 returns 0, more than the maximum is the maximum. */
uint32_t nxm_stack_capture(unsigned depth);

/* Copies up to `capacity` frames, innermost first; returns how many the stack has, 0 for an id never given out. */
size_t nxm_stack_frames(uint32_t id, struct nxm_frame *ret_frames, size_t capacity);

/* The stacks of a process that ended (journal.h), in place of our own. */
struct nxm_arena;
void nxm_stack_adopt(void *stacks, uint32_t count, uint64_t dropped, const struct nxm_arena *arena);

uint64_t nxm_stack_dropped(void); /* captures not kept because the memory was used up */

#endif
