/* dlsym, dlvsym, dlopen and dlmopen as the program calls them: ask the decider, then answer or *jump*, so that the C
 * library's function sees the caller's own return address. Nothing is kept; no unwinding state changes hands
 * beyond the pushes described by the CFI.
 */
#if !defined(__x86_64__) || defined(__ILP32__)
#error "the routing stubs exist for 64-bit x86 only"
#endif
#if defined(__CET__)
#include <cet.h>
#endif

    .text

/* A lookup: rdi handle, rsi name, rdx version (dlvsym). */
.macro LOOKUP symbol, real, versioned
    .globl \symbol
    .type \symbol, @function
    .balign 16
\symbol:
    .cfi_startproc
    endbr64
    push %rdi
    .cfi_adjust_cfa_offset 8
    push %rsi
    .cfi_adjust_cfa_offset 8
    push %rdx
    .cfi_adjust_cfa_offset 8 /* the stack is aligned to 16 again */
    .ifeq \versioned
    xor %edx, %edx
    .endif
    mov 24(%rsp), %rcx /* the caller */
    call nxm_route_dlsym
    test %rax, %rax
    jnz 1f
    mov %rdx, %rdi /* the handle to ask: nearly always the caller's */
    .cfi_remember_state
    pop %rdx
    .cfi_adjust_cfa_offset -8
    pop %rsi
    .cfi_adjust_cfa_offset -8
    lea 8(%rsp), %rsp
    .cfi_adjust_cfa_offset -8
    mov \real(%rip), %r11
    test %r11, %r11
    jz 2f
    jmp *%r11
2:  ret /* no such function here: rax is NULL */
    .cfi_restore_state
1:  add $24, %rsp
    .cfi_adjust_cfa_offset -24
    ret
    .cfi_endproc
    .size \symbol, . - \symbol
.endm

    LOOKUP dlsym, nxm_next_dlsym, 0
    LOOKUP dlvsym, nxm_next_dlvsym, 1

/* rdi file, esi flags: only the flags may change. */
    .globl dlopen
    .type dlopen, @function
    .balign 16
dlopen:
    .cfi_startproc
    endbr64
    push %rdi
    .cfi_adjust_cfa_offset 8
    call nxm_route_dlopen
    pop %rdi
    .cfi_adjust_cfa_offset -8
    mov %eax, %esi
    xor %eax, %eax
    mov nxm_next_dlopen(%rip), %r11
    test %r11, %r11
    jz 1f
    jmp *%r11
1:  ret
    .cfi_endproc
    .size dlopen, . - dlopen

/* rdi namespace, rsi file, edx flags: only looked at. */
    .globl dlmopen
    .type dlmopen, @function
    .balign 16
dlmopen:
    .cfi_startproc
    endbr64
    push %rdi
    .cfi_adjust_cfa_offset 8
    push %rsi
    .cfi_adjust_cfa_offset 8
    push %rdx
    .cfi_adjust_cfa_offset 8
    call nxm_route_dlmopen
    pop %rdx
    .cfi_adjust_cfa_offset -8
    pop %rsi
    .cfi_adjust_cfa_offset -8
    pop %rdi
    .cfi_adjust_cfa_offset -8
    xor %eax, %eax
    mov nxm_next_dlmopen(%rip), %r11
    test %r11, %r11
    jz 1f
    jmp *%r11
1:  ret
    .cfi_endproc
    .size dlmopen, . - dlmopen

    .section .note.GNU-stack, "", @progbits
