#include "cfi.h"

#include <stdbool.h>

#include "cfi_expression.h"
#include "unwind_rule.h"

#define REMEMBERED_MAX 8
#define UNKNOWN (NXM_RULE_THERE | NXM_RULE_UNKNOWN)

enum how {
    HOW_SAME, /* not changed yet */
    HOW_AT_CFA,
    HOW_EXPRESSION, /* which says where it was saved */
    HOW_UNDEFINED,
    HOW_STRANGE /* in another register, or a value rather than a place */
};

struct saved {
    enum how how;
    int64_t offset;
    struct nxm_bytes expression;
};

/* A row of the table that the instructions make. Registers that no rule is made from are left out. */
struct row {
    bool cfa_is_expression;
    uint64_t cfa_register;
    int64_t cfa_offset;
    struct nxm_bytes cfa_expression;
    struct saved fp, ra, sp;
    bool signed_ra;
};

struct machine {
    const struct nxm_fde *fde;
    uint64_t location, address;
    struct row row, initial;
    struct row remembered[REMEMBERED_MAX];
    unsigned remembered_count;
    bool strange;
};

/* --- single instructions ---------------------------------------------------------------------------------- */

static struct saved *saved_of(struct row *row, uint64_t number)
{
    switch (number) {
    case NXM_CFI_FP:
        return &row->fp;
    case NXM_CFI_RA:
        return &row->ra;
    case NXM_CFI_SP:
        return &row->sp;
    default:
        return NULL;
    }
}

static void save(struct machine *machine, uint64_t number, enum how how, int64_t offset)
{
    struct saved *saved = saved_of(&machine->row, number);

    if (saved != NULL)
        *saved = (struct saved){ .how = how, .offset = offset };
}

static void save_expression(struct machine *machine, uint64_t number, struct nxm_bytes expression)
{
    struct saved *saved = saved_of(&machine->row, number);

    if (saved != NULL)
        *saved = (struct saved){ .how = HOW_EXPRESSION, .expression = expression };
}

static void restore(struct machine *machine, uint64_t number)
{
    struct saved *saved = saved_of(&machine->row, number);

    if (saved != NULL)
        *saved = *saved_of(&machine->initial, number);
}

static int64_t in_units(const struct machine *machine, uint64_t factored)
{
    return (int64_t)(factored * (uint64_t)machine->fde->data_unit);
}

static void advance(struct machine *machine, uint64_t units)
{
    machine->location += units * machine->fde->code_unit;
}

static void remember(struct machine *machine)
{
    if (machine->remembered_count == REMEMBERED_MAX)
        machine->strange = true;
    else
        machine->remembered[machine->remembered_count++] = machine->row;
}

static void recall(struct machine *machine)
{
    if (machine->remembered_count == 0)
        machine->strange = true;
    else
        machine->row = machine->remembered[--machine->remembered_count];
}

static void define_cfa(struct machine *machine, uint64_t number, int64_t offset)
{
    machine->row.cfa_is_expression = false;
    machine->row.cfa_register = number;
    machine->row.cfa_offset = offset;
}

/* --- the instructions ------------------------------------------------------------------------------------- */

static void do_cfa(struct machine *machine, unsigned instruction, struct nxm_bytes *bytes)
{
    uint64_t number = machine->row.cfa_register;

    switch (instruction) {
    case 0x0C:
        number = nxm_bytes_uleb(bytes);
        define_cfa(machine, number, (int64_t)nxm_bytes_uleb(bytes));
        break;
    case 0x0D:
        define_cfa(machine, nxm_bytes_uleb(bytes), machine->row.cfa_offset);
        break;
    case 0x0E:
        define_cfa(machine, number, (int64_t)nxm_bytes_uleb(bytes));
        break;
    case 0x0F:
        machine->row.cfa_is_expression = true;
        machine->row.cfa_expression = nxm_bytes_take(bytes, nxm_bytes_uleb(bytes));
        break;
    case 0x12:
        number = nxm_bytes_uleb(bytes);
        define_cfa(machine, number, in_units(machine, (uint64_t)nxm_bytes_sleb(bytes)));
        break;
    default: /* 0x13 */
        define_cfa(machine, number, in_units(machine, (uint64_t)nxm_bytes_sleb(bytes)));
        break;
    }
}

/* Those that begin with a register's number. */
static void do_register(struct machine *machine, unsigned instruction, struct nxm_bytes *bytes)
{
    uint64_t number = nxm_bytes_uleb(bytes);

    switch (instruction) {
    case 0x05:
        save(machine, number, HOW_AT_CFA, in_units(machine, nxm_bytes_uleb(bytes)));
        break;
    case 0x06:
        restore(machine, number);
        break;
    case 0x07:
        save(machine, number, HOW_UNDEFINED, 0);
        break;
    case 0x08:
        save(machine, number, HOW_SAME, 0);
        break;
    case 0x10:
        save_expression(machine, number, nxm_bytes_take(bytes, nxm_bytes_uleb(bytes)));
        break;
    case 0x11:
        save(machine, number, HOW_AT_CFA, in_units(machine, (uint64_t)nxm_bytes_sleb(bytes)));
        break;
    case 0x2F:
        save(machine, number, HOW_AT_CFA, in_units(machine, -nxm_bytes_uleb(bytes)));
        break;
    case 0x16:
        (void)nxm_bytes_take(bytes, nxm_bytes_uleb(bytes));
        save(machine, number, HOW_STRANGE, 0);
        break;
    default: /* 0x09, 0x14, 0x15: a register, or a value at an offset; one operand each */
        (void)nxm_bytes_uleb(bytes);
        save(machine, number, HOW_STRANGE, 0);
        break;
    }
}

static void do_location(struct machine *machine, unsigned instruction, struct nxm_bytes *bytes)
{
    switch (instruction) {
    case 0x02:
        advance(machine, nxm_bytes_unsigned(bytes, 1));
        break;
    case 0x03:
        advance(machine, nxm_bytes_unsigned(bytes, 2));
        break;
    case 0x04:
        advance(machine, nxm_bytes_unsigned(bytes, 4));
        break;
    default: /* 0x01, an address in the CIE's encoding: no compiler writes it */
        machine->strange = true;
        break;
    }
}

static void do_other(struct machine *machine, unsigned instruction, struct nxm_bytes *bytes)
{
    if (instruction <= 0x04 && instruction != 0)
        do_location(machine, instruction, bytes);
    else if (instruction == 0x0A)
        remember(machine);
    else if (instruction == 0x0B)
        recall(machine);
    else if ((instruction >= 0x0C && instruction <= 0x0F) || instruction == 0x12 || instruction == 0x13)
        do_cfa(machine, instruction, bytes);
    else if ((instruction >= 0x05 && instruction <= 0x16) || instruction == 0x2F)
        do_register(machine, instruction, bytes);
    else if (instruction == 0x2D || instruction == 0x2C) /* 64-bit ARM: signed from here, or no more */
        machine->row.signed_ra = !machine->row.signed_ra;
    else if (instruction == 0x2E)
        (void)nxm_bytes_uleb(bytes); /* bytes of arguments: nothing to us */
    else if (instruction != 0)
        machine->strange = true;
}

/* Up to the row that the address is in. */
static void run(struct machine *machine, struct nxm_bytes bytes)
{
    while (nxm_bytes_left(&bytes) != 0 && machine->location <= machine->address && !machine->strange) {
        unsigned instruction = (unsigned)nxm_bytes_unsigned(&bytes, 1), operand = instruction & 0x3F;

        switch (instruction >> 6) {
        case 1:
            advance(machine, operand);
            break;
        case 2:
            save(machine, operand, HOW_AT_CFA, in_units(machine, nxm_bytes_uleb(&bytes)));
            break;
        case 3:
            restore(machine, operand);
            break;
        default:
            do_other(machine, instruction, &bytes);
            break;
        }
        machine->strange |= bytes.cut;
    }
}

/* --- from a row to a rule --------------------------------------------------------------------------------- */

static bool cfa_rule(const struct row *row, uint64_t pc, struct nxm_rule *rule)
{
    struct nxm_term term = { NXM_TERM_SP, false, row->cfa_offset };

    if (row->cfa_is_expression) {
        if (!nxm_cfi_expression(row->cfa_expression, pc, NULL, &term))
            return false;
    } else if (row->cfa_register == NXM_CFI_FP) {
        term.from = NXM_TERM_FP;
    } else if (row->cfa_register != NXM_CFI_SP) {
        return false;
    }
    if (term.from != NXM_TERM_SP && term.from != NXM_TERM_FP)
        return false;
    rule->cfa_from = term.from == NXM_TERM_SP ? NXM_FROM_SP : NXM_FROM_FP;
    rule->cfa_loaded = term.loaded;
    rule->cfa = term.offset;
    return true;
}

static bool place_of(const struct saved *saved, uint64_t pc, enum nxm_from *ret_from, int64_t *ret_offset)
{
    static const struct nxm_term cfa = { NXM_TERM_CFA, false, 0 };
    struct nxm_term term = { NXM_TERM_CFA, false, saved->offset };

    *ret_offset = 0;
    *ret_from = NXM_FROM_KEPT;
    if (saved->how == HOW_SAME || saved->how == HOW_UNDEFINED)
        return true;
    if (saved->how == HOW_STRANGE ||
        (saved->how == HOW_EXPRESSION && !nxm_cfi_expression(saved->expression, pc, &cfa, &term)) || term.loaded ||
        term.from == NXM_TERM_NUMBER)
        return false;
    *ret_from = term.from == NXM_TERM_CFA ? NXM_FROM_CFA : term.from == NXM_TERM_SP ? NXM_FROM_SP : NXM_FROM_FP;
    *ret_offset = term.offset;
    return true;
}

/* The caller's stack pointer is the CFA. A trampoline says so once more: it lies where the CFA was loaded from. */
static bool sp_is_cfa(const struct row *row, uint64_t pc, const struct nxm_rule *rule)
{
    enum nxm_from from;
    int64_t offset;

    if (row->sp.how == HOW_SAME)
        return true;
    return place_of(&row->sp, pc, &from, &offset) && rule->cfa_loaded && from == rule->cfa_from && offset == rule->cfa;
}

static uint64_t rule_of(const struct row *row, const struct nxm_fde *fde, uint64_t pc)
{
    struct nxm_rule rule = { .signal = fde->signal, .signed_ra = row->signed_ra };

    rule.last = row->ra.how == HOW_UNDEFINED;
#if defined __x86_64__
    if (row->ra.how == HOW_SAME) /* it lies on the stack, always */
        return UNKNOWN;
#endif
    if (rule.last)
        return nxm_rule_pack(&rule);
    if (!cfa_rule(row, pc, &rule) || !place_of(&row->fp, pc, &rule.fp_from, &rule.fp) ||
        !place_of(&row->ra, pc, &rule.ra_from, &rule.ra) || !sp_is_cfa(row, pc, &rule))
        return UNKNOWN;
    return nxm_rule_pack(&rule);
}

uint64_t nxm_cfi_rule(const struct nxm_fde *fde, uint64_t address)
{
    struct machine machine = { .fde = fde, .location = fde->start, .address = address };

    if (fde->ra_register != NXM_CFI_RA)
        return UNKNOWN;
    run(&machine, fde->common);
    machine.initial = machine.row;
    run(&machine, fde->program);
    return machine.strange ? UNKNOWN : rule_of(&machine.row, fde, address);
}
