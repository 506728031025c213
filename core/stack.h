/* Call stacks, captured and interned: one small id per distinct stack. Owns the interned stacks and the
 * names of the modules in them, kept when a module is unloaded. Any thread; NXM_RANK_STACK inside.
 *
 * Memory is bounded; when the table is full a capture returns 0 and is counted. Never called with a
 * lock of ours held (the unwinder may enter the loader).
 */
#ifndef NXM_STACK_H
#define NXM_STACK_H

#include <stddef.h>
#include <stdint.h>

#define NXM_STACK_DEPTH_MAX 64

struct nxm_frame {
    uint64_t pc;
    const char *module; /* path as the loader knows it, interned; "" unknown */
    uint64_t offset;    /* pc minus the module's load address */
    const char *symbol; /* nearest exported symbol, interned; NULL unknown */
    uint64_t symbol_offset;
};

/* Warm-up of the unwinder: at first use, outside any lock. */
void nxm_stack_prepare(void);

/* Frames of our own library at the top are left out. depth 0 returns 0. */
uint32_t nxm_stack_capture(unsigned depth);

/* Copies up to `capacity` frames, innermost first; returns how many the stack has. */
size_t nxm_stack_frames(uint32_t id, struct nxm_frame *ret_frames, size_t capacity);

uint64_t nxm_stack_dropped(void); /* captures not kept because the table was full */

#endif
