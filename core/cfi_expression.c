#include "cfi_expression.h"

#include "cfi.h"

#define DEPTH 8

struct stack {
    struct nxm_term terms[DEPTH];
    unsigned depth;
    bool failed;
};

static void push(struct stack *stack, struct nxm_term term)
{
    if (stack->depth == DEPTH)
        stack->failed = true;
    else
        stack->terms[stack->depth++] = term;
}

static struct nxm_term pop(struct stack *stack)
{
    if (stack->depth == 0) {
        stack->failed = true;
        return (struct nxm_term){ NXM_TERM_NUMBER, false, 0 };
    }
    return stack->terms[--stack->depth];
}

static void push_number(struct stack *stack, int64_t number)
{
    push(stack, (struct nxm_term){ NXM_TERM_NUMBER, false, number });
}

static void push_register(struct stack *stack, uint64_t number, int64_t offset, uint64_t pc)
{
    if (number == NXM_CFI_SP)
        push(stack, (struct nxm_term){ NXM_TERM_SP, false, offset });
    else if (number == NXM_CFI_FP)
        push(stack, (struct nxm_term){ NXM_TERM_FP, false, offset });
    else if (number == NXM_CFI_PC)
        push_number(stack, (int64_t)(pc + (uint64_t)offset));
    else
        stack->failed = true;
}

static struct nxm_term moved(struct stack *stack, struct nxm_term term, uint64_t by)
{
    if (term.loaded) /* two steps: no rule says that */
        stack->failed = true;
    term.offset = (int64_t)((uint64_t)term.offset + by);
    return term;
}

static void add(struct stack *stack)
{
    struct nxm_term b = pop(stack), a = pop(stack);

    if (b.from == NXM_TERM_NUMBER && !b.loaded)
        push(stack, a.from == NXM_TERM_NUMBER && !a.loaded ? (struct nxm_term){ NXM_TERM_NUMBER, false, (int64_t)((uint64_t)a.offset + (uint64_t)b.offset) }
                                                           : moved(stack, a, (uint64_t)b.offset));
    else if (a.from == NXM_TERM_NUMBER && !a.loaded)
        push(stack, moved(stack, b, (uint64_t)a.offset));
    else
        stack->failed = true;
}

static void load(struct stack *stack)
{
    struct nxm_term term = pop(stack);

    if (term.loaded || term.from == NXM_TERM_NUMBER)
        stack->failed = true;
    term.loaded = true;
    push(stack, term);
}

static int64_t pop_number(struct stack *stack)
{
    struct nxm_term term = pop(stack);

    if (term.from != NXM_TERM_NUMBER || term.loaded)
        stack->failed = true;
    return term.offset;
}

/* Operations on two numbers. */
static bool calculate(struct stack *stack, unsigned operation)
{
    int64_t b, a;

    if (operation == 0x22) {
        add(stack);
        return true;
    }
    b = pop_number(stack);
    if (operation == 0x1C) { /* minus: also from a register */
        push(stack, moved(stack, pop(stack), -(uint64_t)b));
        return true;
    }
    a = pop_number(stack);
    switch (operation) {
    case 0x1A: a &= b; break;
    case 0x21: a |= b; break;
    case 0x27: a ^= b; break;
    case 0x24: a = (uint64_t)b < 64 ? (int64_t)((uint64_t)a << b) : 0; break;
    case 0x25: a = (uint64_t)b < 64 ? (int64_t)((uint64_t)a >> b) : 0; break;
    case 0x29: a = a == b; break;
    case 0x2A: a = a >= b; break;
    case 0x2B: a = a > b; break;
    case 0x2C: a = a <= b; break;
    case 0x2D: a = a < b; break;
    case 0x2E: a = a != b; break;
    default: return false;
    }
    push_number(stack, a);
    return true;
}

static bool push_constant(struct stack *stack, unsigned operation, struct nxm_bytes *bytes)
{
    switch (operation) {
    case 0x08: push_number(stack, (int64_t)nxm_bytes_unsigned(bytes, 1)); break;
    case 0x09: push_number(stack, nxm_bytes_signed(bytes, 1)); break;
    case 0x0A: push_number(stack, (int64_t)nxm_bytes_unsigned(bytes, 2)); break;
    case 0x0B: push_number(stack, nxm_bytes_signed(bytes, 2)); break;
    case 0x0C: push_number(stack, (int64_t)nxm_bytes_unsigned(bytes, 4)); break;
    case 0x0D: push_number(stack, nxm_bytes_signed(bytes, 4)); break;
    case 0x0E:
    case 0x0F: push_number(stack, (int64_t)nxm_bytes_unsigned(bytes, 8)); break;
    case 0x10: push_number(stack, (int64_t)nxm_bytes_uleb(bytes)); break;
    case 0x11: push_number(stack, nxm_bytes_sleb(bytes)); break;
    default: return false;
    }
    return true;
}

static bool step(struct stack *stack, struct nxm_bytes *bytes, uint64_t pc)
{
    unsigned operation = (unsigned)nxm_bytes_unsigned(bytes, 1);

    if (operation >= 0x30 && operation <= 0x4F) {
        push_number(stack, operation - 0x30);
    } else if (operation >= 0x70 && operation <= 0x8F) {
        push_register(stack, operation - 0x70, nxm_bytes_sleb(bytes), pc);
    } else if (operation == 0x92) {
        uint64_t number = nxm_bytes_uleb(bytes);
        push_register(stack, number, nxm_bytes_sleb(bytes), pc);
    } else if (operation == 0x06) {
        load(stack);
    } else if (operation == 0x23) {
        push(stack, moved(stack, pop(stack), nxm_bytes_uleb(bytes)));
    } else if (operation == 0x12) {
        struct nxm_term top = pop(stack);
        push(stack, top);
        push(stack, top);
    } else if (operation == 0x13) {
        (void)pop(stack);
    } else if (operation != 0x96) {
        return push_constant(stack, operation, bytes) || calculate(stack, operation);
    }
    return true;
}

bool nxm_cfi_expression(struct nxm_bytes bytes, uint64_t pc, const struct nxm_term *start, struct nxm_term *ret_term)
{
    struct stack stack = { .depth = 0 };

    if (start != NULL)
        push(&stack, *start);
    while (nxm_bytes_left(&bytes) != 0 && !stack.failed) {
        if (!step(&stack, &bytes, pc))
            return false;
    }
    struct nxm_term result = pop(&stack);
    if (stack.failed || bytes.cut)
        return false;
    *ret_term = result;
    return true;
}
