/* core/eh_frame, core/cfi: tables of any bytes are read within their bounds (an exact block), and a rule that is called plain is one: that
 * is what the unwinder's fast path relies on. Where the program is made of known instructions, what it says is worked out a second
 * time while it is written, and the rule must say the same. */
#include <stdlib.h>
#include <string.h>

#include "core/cfi.h"
#include "core/eh_frame.h"
#include "core/unwind_rule.h"
#include "support.h"

#define CODE_AT 0x10000u
#define CODE_BYTES 64u
#define PROGRAM_MAX 200u

/* --- a program and what it says ------------------------------------------------------------------------------- */

struct row {
    unsigned cfa_register;
    int64_t cfa, fp, ra;
    bool fp_saved, signed_ra;
};

struct program {
    uint8_t bytes[PROGRAM_MAX + 16];
    size_t length;
    struct row now, at_target, remembered[4];
    unsigned depth;
    uint64_t place, target;
};

static void emit(struct program *program, unsigned byte)
{
    program->bytes[program->length++] = (uint8_t)byte;
}

static void emit_number(struct program *program, uint64_t number)
{
    for (; number >= 0x80; number >>= 7)
        emit(program, 0x80 | (number & 0x7F));
    emit(program, (unsigned)number);
}

static void emit_advance(struct program *program, unsigned by)
{
    if (by & 1) {
        emit(program, 0x40 | by);
    } else {
        emit(program, 0x02);
        emit(program, by);
    }
    program->place += by;
}

static void emit_cfa(struct fuzz_input *input, struct program *program)
{
    unsigned number = fuzz_one_in(input, 2) ? NXM_CFI_FP : NXM_CFI_SP, offset = (unsigned)fuzz_u8(input) * 8;

    switch (fuzz_u8(input) % 3) {
    case 0:
        emit(program, 0x0C);
        emit_number(program, number);
        emit_number(program, offset);
        program->now.cfa_register = number;
        program->now.cfa = offset;
        break;
    case 1:
        emit(program, 0x0D);
        emit_number(program, number);
        program->now.cfa_register = number;
        break;
    default:
        emit(program, 0x0E);
        emit_number(program, offset);
        program->now.cfa = offset;
        break;
    }
}

static void emit_saved(struct fuzz_input *input, struct program *program)
{
    unsigned units = fuzz_u8(input);

    switch (fuzz_u8(input) % 4) {
    case 0:
        emit(program, 0x80 | NXM_CFI_FP);
        emit_number(program, units);
        program->now.fp = -(int64_t)units * 8;
        program->now.fp_saved = true;
        break;
    case 1:
        emit(program, 0x05);
        emit_number(program, NXM_CFI_RA);
        emit_number(program, units);
        program->now.ra = -(int64_t)units * 8;
        break;
    case 2:
        emit(program, fuzz_one_in(input, 2) ? 0x08 : 0x06); /* the same value; as at first */
        emit_number(program, NXM_CFI_FP);
        program->now.fp_saved = false;
        break;
    default:
        emit(program, 0x80 | 3);
        emit_number(program, units);
        break;
    }
}

static void emit_one(struct fuzz_input *input, struct program *program)
{
    switch (fuzz_u8(input) % 6) {
    case 0:
        emit_advance(program, fuzz_u8(input) % 16);
        break;
    case 1:
        emit_cfa(input, program);
        break;
    case 2:
        emit_saved(input, program);
        break;
    case 3:
        if (program->depth == 4)
            break;
        emit(program, 0x0A);
        program->remembered[program->depth++] = program->now;
        break;
    case 4:
        if (program->depth == 0)
            break;
        emit(program, 0x0B);
        program->now = program->remembered[--program->depth];
        break;
    default:
        emit(program, 0x2D);
        program->now.signed_ra = !program->now.signed_ra;
        break;
    }
}

static void make_program(struct fuzz_input *input, struct program *program)
{
    memset(program, 0, sizeof *program);
    program->target = fuzz_u8(input) % CODE_BYTES;
    program->now = (struct row){ .cfa_register = NXM_CFI_SP, .cfa = 8, .ra = -8 };
    program->at_target = program->now;
    while (input->left != 0 && program->length < PROGRAM_MAX) {
        emit_one(input, program);
        if (program->place <= program->target)
            program->at_target = program->now;
    }
}

static uint64_t expected(const struct row *row)
{
    struct nxm_rule rule = { .cfa_from = row->cfa_register == NXM_CFI_SP ? NXM_FROM_SP : NXM_FROM_FP, .cfa = row->cfa, .ra = row->ra,
                             .fp = row->fp_saved ? row->fp : 0, .fp_from = row->fp_saved ? NXM_FROM_CFA : NXM_FROM_KEPT,
                             .signed_ra = row->signed_ra };

    return nxm_rule_pack(&rule);
}

/* --- tables around it ------------------------------------------------------------------------------------------- */

struct tables {
    uint8_t bytes[1024];
    size_t length;
};

static void put(struct tables *tables, const void *bytes, size_t size)
{
    memcpy(tables->bytes + tables->length, bytes, size);
    tables->length += size;
}

static void put_word(struct tables *tables, uint64_t value)
{
    put(tables, &(uint32_t){ (uint32_t)value }, 4);
}

static void end_entry(struct tables *tables, size_t start)
{
    uint32_t length = (uint32_t)(tables->length - start - 4);

    memcpy(tables->bytes + start, &length, 4);
}

static void make_tables(struct tables *tables, const uint8_t *program, size_t size)
{
    static const uint8_t head[] = { 1, 0x1B, 0x03, 0x3B };
    static const uint8_t common[] = { 1, 'z', 'R', 0, 1, 0x78, NXM_CFI_RA, 1, 0x1B, 0x0C, NXM_CFI_SP, 8, 0x80 | NXM_CFI_RA, 1 };
    size_t cie = 20, fde = cie + 8 + sizeof common;

    tables->length = 0;
    put(tables, head, sizeof head);
    put_word(tables, 16);
    put_word(tables, 1);
    put_word(tables, CODE_AT);
    put_word(tables, fde);
    put_word(tables, 0);
    put_word(tables, 0);
    put(tables, common, sizeof common);
    end_entry(tables, cie);
    put_word(tables, 0);
    put_word(tables, tables->length - cie);
    put_word(tables, CODE_AT - tables->length);
    put_word(tables, CODE_BYTES);
    put(tables, "", 1);
    put(tables, program, size);
    end_entry(tables, fde);
}

/* --- what must hold --------------------------------------------------------------------------------------------- */

static void check_rule(uint64_t rule)
{
    int64_t cfa = nxm_rule_cfa(rule), ra = nxm_rule_ra(rule), fp = nxm_rule_fp(rule);

    FUZZ_CHECK(rule & NXM_RULE_THERE);
    if (rule & (NXM_RULE_UNKNOWN | NXM_RULE_LAST))
        FUZZ_CHECK(rule == (NXM_RULE_THERE | NXM_RULE_UNKNOWN) || rule == (NXM_RULE_THERE | NXM_RULE_LAST));
    if (!(rule & NXM_RULE_PLAIN))
        return;
    FUZZ_CHECK(!(rule & (NXM_RULE_LOADED | NXM_RULE_SIGNAL | NXM_RULE_SIGNED | NXM_RULE_PAIR)));
    FUZZ_CHECK(cfa >= 8 && ra <= -8 && ra >= -cfa && ra == nxm_rule_plain_ra(rule));
    FUZZ_CHECK(rule & NXM_RULE_FP_KEPT || (fp <= -8 && fp >= -cfa && fp == nxm_rule_plain_fp(rule)));
}

static bool look_up(const uint8_t *bytes, size_t size, uint64_t offset, uint64_t *ret_rule)
{
    struct nxm_eh_frame tables = { bytes, bytes + size, bytes };
    struct nxm_fde fde;
    uint64_t address = (uintptr_t)bytes + CODE_AT + offset;

    if (nxm_fde_find(&tables, address, &fde) != NXM_FDE_FOUND)
        return false;
    FUZZ_CHECK(address - fde.start < fde.length);
    FUZZ_CHECK(fde.program.at >= bytes && fde.program.end <= bytes + size && fde.program.at <= fde.program.end);
    FUZZ_CHECK(fde.common.at >= bytes && fde.common.end <= bytes + size && fde.common.at <= fde.common.end);
    *ret_rule = nxm_cfi_rule(&fde, address);
    check_rule(*ret_rule);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    struct fuzz_input input = { data, length };
    unsigned way = fuzz_u8(&input) % 3;
    struct program program;
    struct tables tables;
    uint64_t rule = 0;

    if (way == 0) { /* our own instructions */
        make_program(&input, &program);
        make_tables(&tables, program.bytes, program.length);
    } else { /* any bytes as instructions; then some bytes changed anywhere */
        uint8_t bytes[PROGRAM_MAX];
        size_t size = fuzz_u8(&input) % PROGRAM_MAX;

        program.target = fuzz_u8(&input) % CODE_BYTES;
        fuzz_fill(&input, bytes, size);
        make_tables(&tables, bytes, size);
        for (unsigned i = 0; way == 2 && i < 4; i++)
            tables.bytes[fuzz_u8(&input) % tables.length] = fuzz_u8(&input);
        if (way == 2 && fuzz_one_in(&input, 3))
            tables.length = fuzz_u8(&input) % tables.length + 1;
    }
    uint8_t *exact = fuzz_exact(tables.bytes, tables.length);
    bool found = look_up(exact, tables.length, program.target, &rule);
    FUZZ_CHECK(found || way == 2);
    if (way == 0)
        FUZZ_CHECK(rule == expected(&program.at_target));
    free(exact);
    return 0;
}
