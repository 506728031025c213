/* Code to be walked through, compiled in several ways (Makefile): each function calls back from below frames of another kind. */
#include "frames.h"

#include <alloca.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define FRAME __attribute__((noinline, noclone))
#define NO_TAIL __asm__ volatile("" ::: "memory")
#if defined __clang__
#undef FRAME
#define FRAME __attribute__((noinline))
#endif

/* --- a chain of ordinary functions -------------------------------------------------------------------------- */

static FRAME void last(frames_callback *callback)
{
    callback();
    NO_TAIL;
}

static FRAME int with_locals(frames_callback *callback, int n)
{
    volatile char locals[300];

    memset((void *)locals, n, sizeof locals);
    last(callback);
    return locals[n];
}

/* Wants most registers that a function has to save. */
static FRAME long with_registers(frames_callback *callback, long a, long b, long c, long d)
{
    long e = a * b, f = b * c, g = c * d, h = d * a;

    e += with_locals(callback, (int)(a & 7));
    return a + b * 3 + c * 5 + d * 7 + e * 11 + f * 13 + g * 17 + h * 19;
}

static FRAME int with_large_locals(frames_callback *callback)
{
    volatile char locals[100000];

    locals[0] = locals[sizeof locals - 1] = 1;
    return (int)with_registers(callback, locals[0], 2, 3, 4) + locals[99999];
}

EXPORT void frames_call(frames_callback *callback)
{
    volatile int result = with_large_locals(callback);

    (void)result;
}

EXPORT void frames_alloca(frames_callback *callback, size_t bytes)
{
    volatile char *room = alloca(bytes);

    room[0] = 1;
    last(callback);
    room[bytes - 1] = 1;
}

/* Aligns its own frame, and does not know how long it is: its caller's stack pointer is loaded from the frame. */
EXPORT void frames_aligned(frames_callback *callback, size_t bytes)
{
    volatile char aligned[128] __attribute__((aligned(64)));
    volatile char *room = alloca(bytes);

    aligned[0] = room[0] = 1;
    frames_alloca(callback, bytes);
    aligned[1] = room[bytes - 1] = aligned[0];
}

EXPORT FRAME void frames_deep(frames_callback *callback, unsigned levels)
{
    if (levels == 0)
        callback();
    else
        frames_deep(callback, levels - 1);
    NO_TAIL;
}

/* --- through other libraries -------------------------------------------------------------------------------- */

static frames_callback *compared;

static int compare(const void *a, const void *b)
{
    if (compared != NULL) {
        frames_callback *once = compared;

        compared = NULL;
        last(once);
    }
    return memcmp(a, b, 1);
}

EXPORT void frames_sort(frames_callback *callback)
{
    char letters[] = "walk";

    compared = callback;
    qsort(letters, 4, 1, compare);
    NO_TAIL;
}

EXPORT void frames_through(frames_through_callback *through, frames_callback *callback)
{
    through(callback);
    NO_TAIL;
}

EXPORT void frames_raise(int signal)
{
    raise(signal);
    NO_TAIL;
}

/* --- interrupted where no call is --------------------------------------------------------------------------- */

/* A function that saves nothing, at its first instruction and behind it. */
__asm__(".text\n"
        ".globl frames_trap\n"
        ".type frames_trap, %function\n"
        "frames_trap:\n"
        ".cfi_startproc\n"
#if defined __x86_64__
        "ud2\n"
        "ret\n"
#else
        "udf #0\n"
        "ret\n"
#endif
        ".cfi_endproc\n"
        ".size frames_trap, . - frames_trap\n");

/* --- a function that moves to another stack ----------------------------------------------------------------- */

__asm__(".text\n"
        ".globl frames_move\n"
        ".type frames_move, %function\n"
        "frames_move:\n"
        ".cfi_startproc\n"
#if defined __x86_64__
        "push %rbp\n"
        ".cfi_def_cfa_offset 16\n"
        ".cfi_offset %rbp, -16\n"
        "mov %rsp, %rbp\n"
        ".cfi_def_cfa_register %rbp\n"
        "mov %rdi, %rsp\n"
        "call *%rsi\n"
        "mov %rbp, %rsp\n"
        "pop %rbp\n"
        ".cfi_def_cfa %rsp, 8\n"
        "ret\n"
#else
        "stp x29, x30, [sp, #-16]!\n"
        ".cfi_def_cfa_offset 16\n"
        ".cfi_offset 29, -16\n"
        ".cfi_offset 30, -8\n"
        "mov x29, sp\n"
        ".cfi_def_cfa_register 29\n"
        "mov sp, x0\n"
        "blr x1\n"
        "mov sp, x29\n"
        ".cfi_def_cfa_register 31\n"
        "ldp x29, x30, [sp], #16\n"
        ".cfi_restore 29\n"
        ".cfi_restore 30\n"
        ".cfi_def_cfa_offset 0\n"
        "ret\n"
#endif
        ".cfi_endproc\n"
        ".size frames_move, . - frames_move\n");

/* --- one that the tables say of what cannot be followed: its caller's stack pointer is in a register that others may use ---- */

__asm__(".text\n"
        ".globl frames_strange\n"
        ".type frames_strange, %function\n"
        "frames_strange:\n"
        ".cfi_startproc\n"
#if defined __x86_64__
        "push %rbx\n"
        ".cfi_def_cfa_offset 16\n"
        ".cfi_offset %rbx, -16\n"
        "mov %rsp, %rbx\n"
        ".cfi_def_cfa_register %rbx\n"
        "call *%rdi\n"
        "pop %rbx\n"
        ".cfi_def_cfa %rsp, 8\n"
        "ret\n"
#else
        "stp x19, x30, [sp, #-16]!\n"
        ".cfi_def_cfa_offset 16\n"
        ".cfi_offset 19, -16\n"
        ".cfi_offset 30, -8\n"
        "mov x19, sp\n"
        ".cfi_def_cfa_register 19\n"
        "blr x0\n"
        "ldp x19, x30, [sp], #16\n"
        ".cfi_def_cfa 31, 0\n"
        ".cfi_restore 19\n"
        ".cfi_restore 30\n"
        "ret\n"
#endif
        ".cfi_endproc\n"
        ".size frames_strange, . - frames_strange\n"
        ".section .note.GNU-stack,\"\",%progbits\n"
        ".text\n");
