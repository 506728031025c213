/* Walking the calling thread's stack, by the unwind tables of the code on it (or by frame pointers). Owns nothing; any thread, signal
 * handlers too; no lock of ours or the loader's (glibc 2.35 and later), no malloc. Rules are cached (rule_cache.h): an address met
 * before costs some forty instructions.
 *
 * Nothing outside the stack is read but the tables, whatever they and the stack hold (stack_span.h).
 */
#ifndef NXM_UNWIND_H
#define NXM_UNWIND_H

#include <stdbool.h>
#include <stdint.h>

#define NXM_TRACE_MAX 64
#define NXM_TRACE_OWN_MAX 64 /* frames walked beyond those wanted: ours, which are left out */

/* A frame: an address in it, which is the byte before the one that a call returns to, with the number of the image that it is in, 0 for
 * none, in the upper 16 bits. */
#define NXM_FRAME_IMAGE_AT 48

static inline uint64_t nxm_frame_of(uint64_t address, uint64_t image_number)
{
    return address ^ image_number << NXM_FRAME_IMAGE_AT;
}

static inline uint64_t nxm_frame_address(uint64_t frame)
{
    return frame & ((UINT64_C(1) << NXM_FRAME_IMAGE_AT) - 1);
}

static inline uint64_t nxm_frame_image(uint64_t frame)
{
    return frame >> NXM_FRAME_IMAGE_AT;
}

struct nxm_trace {
    uint32_t count;
    uint64_t frames[NXM_TRACE_MAX]; /* innermost first */
    uint64_t left_out[NXM_TRACE_OWN_MAX];
};

/* Where a walk begins. */
struct nxm_registers {
    uint64_t pc, sp, fp;
};

/* Those of the function that this is used in. */
#if defined __x86_64__
#define NXM_REGISTERS_HERE(ret) \
    __asm__ volatile("lea 0(%%rip), %0\n\tmov %%rsp, %1\n\tmov %%rbp, %2" : "=&r"((ret).pc), "=&r"((ret).sp), "=&r"((ret).fp))
#elif defined __aarch64__
#define NXM_REGISTERS_HERE(ret) \
    __asm__ volatile("adr %0, .\n\tmov %1, sp\n\tmov %2, x29" : "=&r"((ret).pc), "=&r"((ret).sp), "=&r"((ret).fp))
#endif

/* Up to `depth` frames (NXM_TRACE_MAX), from the caller's own on, without those of our own image at the top. Our own further out are left
 * out too with `all_own`, for an image that is nothing but ours. False: there is code on the stack whose tables say what we cannot
 * follow; another unwinder might. */
bool nxm_unwind(const struct nxm_registers *from, unsigned depth, bool all_own, struct nxm_trace *ret_trace);

/* The same by frame pointers, but through our own image by its tables: where there are none it ends or goes astray. */
void nxm_unwind_frame_pointers(const struct nxm_registers *from, unsigned depth, bool all_own, struct nxm_trace *ret_trace);

#endif
