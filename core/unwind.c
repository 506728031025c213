#include "unwind.h"

#include <signal.h>
#include <stddef.h>
#include <ucontext.h>

#include "cfi.h"
#include "images.h"
#include "rule_cache.h"
#include "stack_span.h"
#include "unwind_rule.h"

#define WORD 8
#define SWITCHES_MAX 8 /* from a signal's stack or a split one to another */

/* A stack is read as it lies there, whatever a sanitizer keeps in it. */
#if defined __clang__
#define READS_STACKS __attribute__((no_sanitize("address", "thread", "undefined")))
#else
#define READS_STACKS __attribute__((no_sanitize_address, no_sanitize_thread, no_sanitize_undefined))
#endif

typedef uint64_t __attribute__((may_alias, aligned(1))) stack_word;

struct walk {
    uint64_t pc, sp, fp;
    uint64_t lr;     /* 0: not known, as in all frames that called another */
    uint64_t end;    /* of the stack that sp is on: [sp, end) can be read */
    uint64_t called; /* 1: pc is where a call returns to, which began before; 0: pc itself was interrupted */
    unsigned switches;
    const struct nxm_known_image *image; /* that pc is in; NULL: none */
    struct nxm_images_seen seen;

    bool all_own, below_own; /* frames of ours are left out: all, or those above the first other one */
    bool telling;            /* the image's frames go to the trace, which has them up to `told` */
    uint64_t *told, *out, *out_end;
    uint64_t *trace_end;
    uint64_t *left_out;
};

static uint64_t without_signature(uint64_t pc)
{
#if defined __aarch64__
    register uint64_t x30 __asm__("x30") = pc;

    __asm__("hint #7" : "+r"(x30)); /* xpaclri; nothing on a machine that signs nothing */
    return x30;
#else
    return pc;
#endif
}

/* --- reading the stack ------------------------------------------------------------------------------------ */

static bool may_read(struct walk *walk, uint64_t at)
{
    if (at < walk->sp || at > UINT64_MAX - WORD)
        return false;
    if (at + WORD > walk->end)
        walk->end = nxm_stack_span_reach(walk->sp, at + WORD);
    return at + WORD <= walk->end;
}

READS_STACKS static bool read_word(struct walk *walk, uint64_t at, uint64_t *ret_word)
{
    if (!may_read(walk, at))
        return false;
    *ret_word = *(const stack_word *)(uintptr_t)at;
    return true;
}

/* The caller's stack pointer. Further up on the same stack, or, a few times, on another one. */
static bool move_to(struct walk *walk, uint64_t sp, bool may_switch)
{
    if (sp > walk->sp && sp <= UINT64_MAX - WORD) {
        if (sp + WORD > walk->end)
            walk->end = nxm_stack_span_reach(walk->sp, sp + WORD);
        if (sp <= walk->end) {
            walk->sp = sp;
            return true;
        }
    }
    if (!may_switch || walk->switches++ == SWITCHES_MAX)
        return false;
    walk->end = nxm_stack_span_end(sp);
    walk->sp = sp;
    return walk->end != 0;
}

/* --- steps -------------------------------------------------------------------------------------------------- */

enum step { STEP_ON, STEP_END, STEP_LOST };

static uint64_t learn(const struct nxm_known_image *image, uint64_t address, uint64_t key)
{
    uint64_t rule = NXM_RULE_THERE | NXM_RULE_UNKNOWN;
    struct nxm_fde fde;

    switch (image->tables_strange ? NXM_FDE_STRANGE : nxm_fde_find(&image->tables, address, &fde)) {
    case NXM_FDE_FOUND:
        rule = nxm_cfi_rule(&fde, address);
        break;
    case NXM_FDE_NONE:
        rule = NXM_RULE_THERE | NXM_RULE_LAST;
        break;
    case NXM_FDE_STRANGE:
        break;
    }
    nxm_rule_keep(key, rule);
    return rule;
}

#if defined __aarch64__
/* A signal's return trampoline, which has no tables here: `mov x8, #139; svc #0`, and the interrupted registers on the stack. */
READS_STACKS static bool leave_signal(struct walk *walk)
{
    const uint64_t registers = walk->sp + sizeof(siginfo_t) + offsetof(ucontext_t, uc_mcontext.regs);
    uint64_t fp, lr, sp, pc;

    if (walk->pc % 4 != 0 || !nxm_memory_is_readable(walk->pc) || !nxm_memory_is_readable(walk->pc + 4) ||
        *(const stack_word *)(uintptr_t)walk->pc != UINT64_C(0xD4000001D2801168))
        return false;
    if (!read_word(walk, registers + 29 * WORD, &fp) || !read_word(walk, registers + 30 * WORD, &lr) ||
        !read_word(walk, registers + 31 * WORD, &sp) || !read_word(walk, registers + 32 * WORD, &pc) ||
        !move_to(walk, sp, true))
        return false;
    walk->fp = fp;
    walk->lr = lr;
    walk->pc = pc;
    walk->called = 0;
    return true;
}
#else
static bool leave_signal(struct walk *walk)
{
    (void)walk;
    return false;
}
#endif

static bool read_from(struct walk *walk, enum nxm_from from, int64_t offset, uint64_t cfa, uint64_t *ret_word)
{
    uint64_t base = from == NXM_FROM_CFA ? cfa : from == NXM_FROM_SP ? walk->sp : walk->fp;

    return read_word(walk, base + (uint64_t)offset, ret_word);
}

/* Any rule, slowly. */
static enum step step_odd(struct walk *walk, uint64_t rule)
{
    enum nxm_from ra_from = (enum nxm_from)(rule >> NXM_RULE_RA_FROM & 3), fp_from = (enum nxm_from)(rule >> NXM_RULE_FP_FROM & 3);
    uint64_t cfa = (rule & NXM_RULE_CFA_FP ? walk->fp : walk->sp) + (uint64_t)nxm_rule_cfa(rule);
    uint64_t pc = walk->lr, fp = walk->fp;
    bool signal = rule & NXM_RULE_SIGNAL;

    if (rule & NXM_RULE_UNKNOWN)
        return STEP_LOST;
    if (rule & NXM_RULE_LAST)
        return leave_signal(walk) ? STEP_ON : STEP_END;
    /* A split stack: the function itself moved to another one, and its frame pointer stayed. */
    if (rule & NXM_RULE_CFA_FP && !may_read(walk, fp) && !move_to(walk, fp, true))
        return STEP_END;
    if (rule & NXM_RULE_LOADED && !read_word(walk, cfa, &cfa))
        return STEP_END;
    if (ra_from != NXM_FROM_KEPT && !read_from(walk, ra_from, nxm_rule_ra(rule), cfa, &pc))
        return STEP_END;
    if (!(rule & NXM_RULE_FP_KEPT) && !read_from(walk, fp_from, nxm_rule_fp(rule), cfa, &fp))
        return STEP_END;
    /* A frame that saved nothing yet has the stack pointer that its caller had. */
    if (!(ra_from == NXM_FROM_KEPT && cfa == walk->sp) && !move_to(walk, cfa, rule & (NXM_RULE_LOADED | NXM_RULE_CFA_FP)))
        return STEP_END;
    walk->fp = fp;
    walk->lr = 0;
    walk->pc = rule & NXM_RULE_SIGNED ? without_signature(pc) : pc;
    walk->called = signal ? 0 : 1;
    return STEP_ON;
}

/* --- walks ------------------------------------------------------------------------------------------------ */

/* Code that no address has. */
static bool is_code(uint64_t pc)
{
    return pc != 0 && pc >> NXM_FRAME_IMAGE_AT == 0;
}

static bool is_in(const struct nxm_known_image *image, uint64_t address)
{
    return image != NULL && address - image->image.start < image->image.end - image->image.start;
}

static inline void begin(struct walk *walk, const struct nxm_registers *from, unsigned depth, bool all_own, struct nxm_trace *trace)
{
    walk->pc = from->pc;
    walk->sp = from->sp;
    walk->fp = from->fp;
    walk->end = nxm_stack_span_end(walk->sp);
    walk->called = 1; /* it stands behind an instruction */
    walk->lr = 0;
    walk->switches = 0;
    walk->image = NULL;
    walk->seen.count = 0;
    walk->all_own = all_own;
    walk->below_own = walk->telling = false;
    walk->told = trace->frames;
    walk->trace_end = trace->frames + (depth < NXM_TRACE_MAX ? depth : NXM_TRACE_MAX);
    walk->left_out = trace->left_out;
}

static inline void leave_image(struct walk *walk)
{
    if (walk->telling)
        walk->told = walk->out;
}

/* The image of the address, and whether its frames are told. More of ours in a row than there is room for end the walk. */
static void enter_image(struct walk *walk, uint64_t address)
{
    leave_image(walk);
    walk->image = nxm_images_at(address, &walk->seen);
    bool own = walk->image != NULL && walk->image->own;
    walk->below_own |= !own;
    walk->telling = !own || (walk->below_own && !walk->all_own);
    walk->out = walk->telling ? walk->told : walk->left_out;
    walk->out_end = walk->telling ? walk->trace_end : walk->left_out + NXM_TRACE_OWN_MAX;
}

/* One frame, whatever it is. */
static __attribute__((noinline)) enum step step_any(struct walk *walk, uint64_t address)
{
    uint64_t key = nxm_rule_key(address, walk->image != NULL ? walk->image->number : 0), rule;

    *walk->out++ = key;
    if (walk->out == walk->out_end)
        return STEP_END;
    if (walk->image == NULL)
        return leave_signal(walk) ? STEP_ON : STEP_END;
    rule = nxm_rule_known(key);
    return step_odd(walk, rule != 0 ? rule : learn(walk->image, address, key));
}

/* Frames with plain rules that are known, in the image that the walk is in: as far as that goes. Nothing here leaves the machine's
 * registers. True: the walk left the image. */
READS_STACKS static inline bool step_plain(struct walk *walk)
{
    const uint64_t end = walk->end, start = walk->image->image.start, size = walk->image->image.end - start;
    const uint64_t tag = nxm_rule_key(0, walk->image->number);
    uint64_t pc = walk->pc, sp = walk->sp, fp = walk->fp, *out = walk->out, *const out_end = walk->out_end - 1;
    bool left;

    for (;;) {
        uint64_t address = pc - 1, key = address ^ tag, base = sp, cfa, rule;

        left = address - start >= size;
        if (left || out == out_end)
            break;
        rule = nxm_rule_cached(key);
        if (!(rule & NXM_RULE_PLAIN))
            break;
        if (rule & NXM_RULE_CFA_FP) {
            base = fp;
            if (fp - sp > end - sp)
                break;
        }
        cfa = base + (uint64_t)nxm_rule_cfa(rule);
        if (cfa > end)
            break;
        *out++ = key;
        pc = *(const stack_word *)(uintptr_t)(cfa + (uint64_t)nxm_rule_plain_ra(rule));
        if (!(rule & NXM_RULE_FP_KEPT))
            fp = *(const stack_word *)(uintptr_t)(cfa + (uint64_t)nxm_rule_plain_fp(rule));
        sp = cfa;
    }
    walk->pc = pc;
    walk->sp = sp;
    walk->fp = fp;
    walk->out = out;
    walk->lr = 0;
    return left;
}

bool nxm_unwind(const struct nxm_registers *from, unsigned depth, bool all_own, struct nxm_trace *ret_trace)
{
    enum step result = STEP_ON;
    struct walk walk;

    begin(&walk, from, depth, all_own, ret_trace);
    while (result == STEP_ON && walk.end != 0 && is_code(walk.pc)) {
        uint64_t address = walk.pc - walk.called;

        if (!is_in(walk.image, address)) {
            enter_image(&walk, address);
            if (walk.out == walk.out_end)
                break;
        }
        if (walk.image != NULL && walk.called != 0) {
            if (step_plain(&walk))
                continue;
            address = walk.pc - 1;
        }
        result = step_any(&walk, address);
    }
    leave_image(&walk);
    ret_trace->count = (uint32_t)(walk.told - ret_trace->frames);
    return result != STEP_LOST;
}

void nxm_unwind_frame_pointers(const struct nxm_registers *from, unsigned depth, bool all_own, struct nxm_trace *ret_trace)
{
    struct walk walk;

    begin(&walk, from, depth, all_own, ret_trace);
    while (walk.end != 0 && is_code(walk.pc)) {
        uint64_t address = walk.pc - walk.called, fp = walk.fp;

        if (walk.image == NULL || !is_in(walk.image, address))
            enter_image(&walk, address);
        if (walk.out == walk.out_end)
            break;
        if (walk.image != NULL && walk.image->own) { /* built without them; its tables lead to the caller's */
            if (step_any(&walk, address) != STEP_ON)
                break;
            continue;
        }
        *walk.out++ = nxm_frame_of(address, walk.image != NULL ? walk.image->number : 0);
        if (fp % WORD != 0 || !read_word(&walk, fp, &walk.fp) || !read_word(&walk, fp + WORD, &walk.pc) ||
            !move_to(&walk, fp + 2 * WORD, false))
            break;
        walk.pc = without_signature(walk.pc);
    }
    leave_image(&walk);
    ret_trace->count = (uint32_t)(walk.told - ret_trace->frames);
}
