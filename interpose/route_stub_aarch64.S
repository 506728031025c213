/* dlsym, dlvsym, dlopen and dlmopen as the program calls them, for 64-bit ARM; see route_stub_x86_64.S, whose twin this is. The link
 * register names the caller, and it is back in place when the C library's function is jumped to.
 */
#if !defined(__aarch64__) || defined(__ILP32__)
#error "these routing stubs are for 64-bit ARM"
#endif

    .text

/* Where branch targets are marked, x16 is a register that a jump to a function may use. */
.macro JUMP real
    adrp x16, \real
    ldr x16, [x16, :lo12:\real]
    cbz x16, 2f
    br x16
2:  mov x0, xzr /* no such function here */
    ret
.endm

/* A lookup: x0 handle, x1 name, x2 version (dlvsym). */
.macro LOOKUP symbol, real, versioned
    .globl \symbol
    .type \symbol, %function
    .hidden \real
    .balign 16
\symbol:
    .cfi_startproc
    hint #34 /* bti c */
    stp x29, x30, [sp, #-48]!
    .cfi_def_cfa_offset 48
    .cfi_offset x29, -48
    .cfi_offset x30, -40
    mov x29, sp
    stp x1, x2, [sp, #16]
    .ifeq \versioned
    mov x2, xzr
    .endif
    mov x3, x30 /* the caller */
    bl nxm_route_dlsym
    cbnz x0, 1f
    mov x0, x1 /* the handle to ask: nearly always the caller's */
    ldp x1, x2, [sp, #16]
    .cfi_remember_state
    ldp x29, x30, [sp], #48
    .cfi_restore x30
    .cfi_restore x29
    .cfi_def_cfa_offset 0
    JUMP \real
    .cfi_restore_state
1:  ldp x29, x30, [sp], #48
    .cfi_restore x30
    .cfi_restore x29
    .cfi_def_cfa_offset 0
    ret
    .cfi_endproc
    .size \symbol, . - \symbol
.endm

    LOOKUP dlsym, nxm_next_dlsym, 0
    LOOKUP dlvsym, nxm_next_dlvsym, 1

/* x0 file, w1 flags: only the flags may change. */
    .globl dlopen
    .type dlopen, %function
    .hidden nxm_next_dlopen
    .balign 16
dlopen:
    .cfi_startproc
    hint #34
    stp x29, x30, [sp, #-32]!
    .cfi_def_cfa_offset 32
    .cfi_offset x29, -32
    .cfi_offset x30, -24
    mov x29, sp
    str x0, [sp, #16]
    bl nxm_route_dlopen
    mov w1, w0
    ldr x0, [sp, #16]
    ldp x29, x30, [sp], #32
    .cfi_restore x30
    .cfi_restore x29
    .cfi_def_cfa_offset 0
    JUMP nxm_next_dlopen
    .cfi_endproc
    .size dlopen, . - dlopen

/* x0 namespace, x1 file, w2 flags: only looked at. */
    .globl dlmopen
    .type dlmopen, %function
    .hidden nxm_next_dlmopen
    .balign 16
dlmopen:
    .cfi_startproc
    hint #34
    stp x29, x30, [sp, #-48]!
    .cfi_def_cfa_offset 48
    .cfi_offset x29, -48
    .cfi_offset x30, -40
    mov x29, sp
    stp x0, x1, [sp, #16]
    str x2, [sp, #32]
    bl nxm_route_dlmopen
    ldp x0, x1, [sp, #16]
    ldr x2, [sp, #32]
    ldp x29, x30, [sp], #48
    .cfi_restore x30
    .cfi_restore x29
    .cfi_def_cfa_offset 0
    JUMP nxm_next_dlmopen
    .cfi_endproc
    .size dlmopen, . - dlmopen

    .section .note.GNU-stack, "", %progbits
