/* core/eh_frame, core/cfi, core/cfi_expression, core/unwind_rule, core/rule_cache: tables made by hand, which end at a wall, so that one
 * byte too many is a crash. Runs under the emulator too (tests/arm). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "core/cfi.h"
#include "core/cfi_expression.h"
#include "core/eh_frame.h"
#include "core/rule_cache.h"
#include "core/unwind_rule.h"

#define SP NXM_CFI_SP
#define FP NXM_CFI_FP
#define RA NXM_CFI_RA
#define OTHER 3 /* a register that no rule is made from */
#define UNKNOWN (NXM_RULE_THERE | NXM_RULE_UNKNOWN)
#define LAST (NXM_RULE_THERE | NXM_RULE_LAST)

/* --- tables ------------------------------------------------------------------------------------------------------- */

#define ROOM 4096u
#define CODE_AT 0x10000 /* from the header: where the first function is */

struct tables {
    uint8_t bytes[1024];
    size_t length, fde_at, cie_at;
};

static void put(struct tables *tables, uint64_t value, size_t size)
{
    memcpy(tables->bytes + tables->length, &value, size);
    tables->length += size;
}

static void put_bytes(struct tables *tables, const void *bytes, size_t size)
{
    memcpy(tables->bytes + tables->length, bytes, size);
    tables->length += size;
}

static void end_entry(struct tables *tables, size_t start)
{
    uint32_t length;

    while (tables->length % 8 != 4)
        put(tables, 0, 1);
    length = (uint32_t)(tables->length - start - 4);
    memcpy(tables->bytes + start, &length, 4);
}

#define BYTES(...) (const uint8_t[]){ __VA_ARGS__ }, sizeof(const uint8_t[]){ __VA_ARGS__ }

/* A header with one row, a common part with those letters and that data, an entry of `size` bytes of code. */
static void make(struct tables *tables, const char *letters, const void *data, size_t data_size, const void *program, size_t program_size,
                 uint32_t size)
{
    static const uint8_t common[] = { 0x0C, SP, 8, 0x80 | RA, 1 }; /* CFA = sp + 8, the return address at -8 */
    size_t start;

    memset(tables, 0, sizeof *tables);
    put_bytes(tables, BYTES(1, 0x1B, 0x03, 0x3B));
    put(tables, 16, 4); /* .eh_frame: nobody follows it */
    put(tables, 1, 4);
    put(tables, CODE_AT, 4);
    put(tables, 0, 4); /* where the entry is: below */
    tables->cie_at = start = tables->length;
    put(tables, 0, 8);
    put(tables, 1, 1);
    put_bytes(tables, letters, strlen(letters) + 1);
    put_bytes(tables, BYTES(1, 0x78, RA)); /* units 1 and -8 */
    if (letters[0] == 'z') {
        put(tables, data_size, 1);
        put_bytes(tables, data, data_size);
    }
    put_bytes(tables, common, sizeof common);
    end_entry(tables, start);
    tables->fde_at = start = tables->length;
    memcpy(tables->bytes + 16, &(uint32_t){ (uint32_t)start }, 4);
    put(tables, 0, 4);
    put(tables, tables->length - tables->cie_at, 4);
    put(tables, CODE_AT - tables->length, 4); /* from here */
    put(tables, size, 4);
    if (letters[0] == 'z')
        put(tables, 0, 1);
    put_bytes(tables, program, program_size);
    end_entry(tables, start);
}

/* Where it ends, nothing can be read. */
static struct nxm_eh_frame at_a_wall(const struct tables *tables, size_t length)
{
    static uint8_t *memory;

    if (memory == NULL) {
        memory = mmap(NULL, 2 * ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_ptr_not_equal(memory, MAP_FAILED);
        assert_int_equal(mprotect(memory + ROOM, ROOM, PROT_NONE), 0);
    }
    memcpy(memory + ROOM - length, tables->bytes, length);
    return (struct nxm_eh_frame){ memory + ROOM - length, memory + ROOM, memory + ROOM - length };
}

static uint64_t code(const struct nxm_eh_frame *tables, uint64_t offset)
{
    return (uintptr_t)tables->header + CODE_AT + offset;
}

static uint64_t rule_at(const struct tables *tables, uint64_t offset)
{
    struct nxm_eh_frame in = at_a_wall(tables, tables->length);
    struct nxm_fde fde;

    assert_int_equal(nxm_fde_find(&in, code(&in, offset), &fde), NXM_FDE_FOUND);
    return nxm_cfi_rule(&fde, code(&in, offset));
}

static enum nxm_fde_result found(const struct tables *tables, uint64_t offset)
{
    struct nxm_eh_frame in = at_a_wall(tables, tables->length);
    struct nxm_fde fde;

    return nxm_fde_find(&in, code(&in, offset), &fde);
}

/* One function of 100 bytes with this program. */
static void make_program(struct tables *tables, const void *program, size_t size)
{
    make(tables, "zR", BYTES(0x1B), program, size, 100);
}

static uint64_t rule_of_program(const void *program, size_t size)
{
    struct tables tables;

    make_program(&tables, program, size);
    return rule_at(&tables, 50);
}

#define RULE_OF(...) rule_of_program((const uint8_t[]){ __VA_ARGS__ }, sizeof(const uint8_t[]){ __VA_ARGS__ })

/* What most rules are; the frame pointer at `fp`, 0: kept. */
static uint64_t plain(enum nxm_from from, int64_t cfa, int64_t fp)
{
    struct nxm_rule rule = { .cfa_from = from, .cfa = cfa, .ra = -8, .fp = fp, .fp_from = fp == 0 ? NXM_FROM_KEPT : NXM_FROM_CFA };

    return nxm_rule_pack(&rule);
}

/* --- finding ------------------------------------------------------------------------------------------------------ */

static void an_address_is_found_in_its_function_only(void **state)
{
    struct tables tables;

    (void)state;
    make_program(&tables, "", 0);
    assert_int_equal(found(&tables, 0), NXM_FDE_FOUND);
    assert_int_equal(found(&tables, 99), NXM_FDE_FOUND);
    assert_int_equal(found(&tables, 100), NXM_FDE_NONE);
    assert_int_equal(found(&tables, (uint64_t)-1), NXM_FDE_NONE);
    assert_int_equal(rule_at(&tables, 0), plain(NXM_FROM_SP, 8, 0));
}

static void an_image_without_tables_has_nothing(void **state)
{
    struct nxm_eh_frame none = { 0 };
    struct nxm_fde fde;

    (void)state;
    assert_int_equal(nxm_fde_find(&none, 4711, &fde), NXM_FDE_NONE);
}

static void what_is_written_otherwise_is_strange(void **state)
{
    static const struct {
        size_t at;
        uint8_t value;
    } changes[] = {
        { 0, 2 },     /* version */
        { 1, 0x80 },  /* where .eh_frame is: indirect */
        { 2, 0xFF },  /* no count */
        { 3, 0x1B },  /* a table of another form */
        { 3, 0xFF },  /* none */
        { 8, 200 },   /* more rows than there are bytes */
        { 19, 0x7F }, /* an entry far away */
    };
    struct tables tables;

    (void)state;
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        make_program(&tables, "", 0);
        tables.bytes[changes[i].at] = changes[i].value;
        assert_int_equal(found(&tables, 5), NXM_FDE_STRANGE);
    }
    make_program(&tables, "", 0);
    tables.bytes[tables.fde_at + 4] = 0; /* a common part in place of an entry */
    assert_int_equal(found(&tables, 5), NXM_FDE_STRANGE);
    make_program(&tables, "", 0);
    tables.bytes[tables.fde_at + 7] = 0x40; /* its common part is far away */
    assert_int_equal(found(&tables, 5), NXM_FDE_STRANGE);
    make_program(&tables, "", 0);
    tables.bytes[tables.fde_at] = 8; /* it ends behind the address */
    assert_int_equal(found(&tables, 5), NXM_FDE_STRANGE);
    make_program(&tables, "", 0);
    tables.bytes[tables.cie_at + 8] = 2; /* its version */
    assert_int_equal(found(&tables, 5), NXM_FDE_STRANGE);
    make_program(&tables, "", 0);
    tables.bytes[tables.cie_at + 4] = 1; /* it is none */
    assert_int_equal(found(&tables, 5), NXM_FDE_STRANGE);
}

static void letters_of_the_common_part_are_understood_or_refused(void **state)
{
    struct tables tables;

    (void)state;
    make(&tables, "zPLR", BYTES(0x9B, 1, 2, 3, 4, 0x1B, 0x1B), "", 0, 100);
    assert_int_equal(rule_at(&tables, 5), plain(NXM_FROM_SP, 8, 0));
    make(&tables, "zRB", BYTES(0x1B), "", 0, 100);
    assert_int_equal(rule_at(&tables, 5), plain(NXM_FROM_SP, 8, 0));
    make(&tables, "zRS", BYTES(0x1B), "", 0, 100);
    assert_true(rule_at(&tables, 5) & NXM_RULE_SIGNAL);
    make(&tables, "zRX", BYTES(0x1B), "", 0, 100);
    assert_int_equal(found(&tables, 5), NXM_FDE_STRANGE);
    make(&tables, "eh", "", 0, "", 0, 100);
    assert_int_equal(found(&tables, 5), NXM_FDE_STRANGE);
    make(&tables, "zR", BYTES(0x9B), "", 0, 100); /* indirect */
    assert_int_equal(found(&tables, 5), NXM_FDE_STRANGE);
    make(&tables, "zR", BYTES(0x1F), "", 0, 100); /* no such form */
    assert_int_equal(found(&tables, 5), NXM_FDE_STRANGE);
    make(&tables, "zRRR", BYTES(0x1B), "", 0, 100); /* more letters than data */
    assert_int_equal(found(&tables, 5), NXM_FDE_STRANGE);
    make(&tables, "zPR", BYTES(0x0F, 0x1B), "", 0, 100); /* a personality in no such form */
    assert_int_equal(found(&tables, 5), NXM_FDE_STRANGE);
    make(&tables, "zB", "", 0, "", 0, 100);
    tables.bytes[tables.cie_at] = 7; /* the part ends within its letters */
    assert_int_equal(found(&tables, 5), NXM_FDE_STRANGE);
    tables.bytes[tables.cie_at] = 5; /* and before them */
    assert_int_equal(found(&tables, 5), NXM_FDE_STRANGE);
}

static void a_personality_in_any_form_is_stepped_over(void **state)
{
    static const uint8_t forms[][10] = {
        { 0x00, 1, 2, 3, 4, 5, 6, 7, 8, 0x1B }, { 0x04, 1, 2, 3, 4, 5, 6, 7, 8, 0x1B }, { 0x0C, 1, 2, 3, 4, 5, 6, 7, 8, 0x1B },
        { 0x01, 0x81, 1, 0x1B },                { 0x09, 0x81, 1, 0x1B },                { 0x02, 1, 2, 0x1B },
        { 0x0A, 1, 2, 0x1B },                   { 0x03, 1, 2, 3, 4, 0x1B },             { 0x0B, 1, 2, 3, 4, 0x1B },
    };
    static const uint8_t sizes[] = { 10, 10, 10, 4, 4, 4, 4, 6, 6 };
    struct tables tables;

    (void)state;
    for (size_t i = 0; i < sizeof sizes; i++) {
        make(&tables, "zPR", forms[i], sizes[i], "", 0, 100);
        assert_int_equal(rule_at(&tables, 5), plain(NXM_FROM_SP, 8, 0));
    }
}

static void an_address_may_be_counted_from_here_from_the_header_or_from_nowhere(void **state)
{
    const uint32_t offset = CODE_AT;
    struct tables tables;
    struct nxm_eh_frame in;
    uint64_t start;

    (void)state;
    make(&tables, "zR", BYTES(0x3B), "", 0, 100);
    memcpy(tables.bytes + tables.fde_at + 8, &offset, sizeof offset);
    assert_int_equal(rule_at(&tables, 5), plain(NXM_FROM_SP, 8, 0));
    make(&tables, "zR", BYTES(0x2B), "", 0, 100); /* from the start of the code, which nobody says */
    assert_int_equal(found(&tables, 5), NXM_FDE_STRANGE);
    make(&tables, "", "", 0, BYTES(100, 0, 0, 0, 0, 0, 0, 0), 0); /* no letters: 8 bytes that are the address, 8 of size */
    in = at_a_wall(&tables, tables.length);
    start = code(&in, 0);
    memcpy(tables.bytes + tables.fde_at + 8, &start, sizeof start);
    assert_int_equal(rule_at(&tables, 5), plain(NXM_FROM_SP, 8, 0));
}

static void the_common_part_names_the_return_address_s_register(void **state)
{
    struct tables tables;

    (void)state;
    make_program(&tables, "", 0);
    tables.bytes[tables.cie_at + 8] = 3; /* that version has a number of any length there */
    assert_int_equal(rule_at(&tables, 5), plain(NXM_FROM_SP, 8, 0));
    tables.bytes[tables.cie_at + 14] = OTHER;
    assert_int_equal(rule_at(&tables, 5), UNKNOWN);
}

/* Wherever they are cut, nothing behind is read, and nothing is found that says more than what was there. */
static void tables_may_end_anywhere(void **state)
{
    static const uint8_t program[] = { 0x02, 10, 0x0E, 16, 0x80 | FP, 2, 0x0F, 5, 0x77, 0x88, 1, 0x23, 8, 0x40 | 3 };
    struct tables tables;
    struct nxm_fde fde;

    (void)state;
    make(&tables, "zPLR", BYTES(0x9B, 1, 2, 3, 4, 0x1B, 0x1B), program, sizeof program, 100);
    for (size_t length = 0; length < tables.length; length++) {
        struct nxm_eh_frame in = at_a_wall(&tables, length);

        assert_int_not_equal(nxm_fde_find(&in, code(&in, 50), &fde), NXM_FDE_FOUND);
        in = at_a_wall(&tables, tables.length);
        in.start += length; /* and begin anywhere */
        if (nxm_fde_find(&in, code(&in, 50), &fde) == NXM_FDE_FOUND)
            assert_int_equal(length, 0);
    }
}

static void a_length_of_64_bits_is_read(void **state)
{
    struct tables tables;
    size_t tail;

    (void)state;
    make_program(&tables, "", 0);
    tail = tables.length - tables.fde_at - 4;
    memmove(tables.bytes + tables.fde_at + 12, tables.bytes + tables.fde_at + 4, tail);
    memset(tables.bytes + tables.fde_at, 0xFF, 4);
    memcpy(tables.bytes + tables.fde_at + 4, &(uint64_t){ tail }, 8);
    tables.bytes[tables.fde_at + 12] = (uint8_t)(tables.bytes[tables.fde_at + 12] + 8); /* the common part is further back */
    tables.bytes[tables.fde_at + 16] = (uint8_t)(tables.bytes[tables.fde_at + 16] - 8); /* and the code nearer */
    tables.length += 8;
    assert_int_equal(rule_at(&tables, 5), plain(NXM_FROM_SP, 8, 0));
}

static void the_right_one_of_many_functions_is_found(void **state)
{
    enum { MANY = 9 };
    struct tables tables;
    struct nxm_eh_frame in;
    struct nxm_fde fde;

    (void)state;
    memset(&tables, 0, sizeof tables);
    put_bytes(&tables, BYTES(1, 0x1B, 0x03, 0x3B));
    put(&tables, 16, 4);
    put(&tables, MANY, 4);
    size_t rows = tables.length;
    for (int i = 0; i < MANY; i++)
        put(&tables, 0, 8);
    size_t common = tables.length;
    put(&tables, 0, 8);
    put_bytes(&tables, BYTES(1, 'z', 'R', 0, 1, 0x78, RA, 1, 0x1B, 0x0C, SP, 8, 0x80 | RA, 1));
    end_entry(&tables, common);
    for (uint32_t i = 0; i < MANY; i++) {
        uint32_t row[2] = { CODE_AT + i * 100, (uint32_t)tables.length };
        size_t start = tables.length;

        memcpy(tables.bytes + rows + i * 8, row, 8);
        put(&tables, 0, 4);
        put(&tables, tables.length - common, 4);
        put(&tables, CODE_AT + i * 100 - tables.length, 4);
        put(&tables, i == 4 ? 60 : 100, 4); /* a gap behind one */
        put_bytes(&tables, BYTES(0, 0x0E));
        put(&tables, 8 * (i + 1), 1);
        end_entry(&tables, start);
    }
    in = at_a_wall(&tables, tables.length);
    for (uint32_t i = 0; i < MANY; i++) {
        for (uint32_t offset = 0; offset < (i == 4 ? 60u : 100u); offset += 19) {
            assert_int_equal(nxm_fde_find(&in, code(&in, i * 100 + offset), &fde), NXM_FDE_FOUND);
            assert_int_equal(nxm_rule_cfa(nxm_cfi_rule(&fde, code(&in, i * 100 + offset))), 8 * (i + 1));
        }
    }
    assert_int_equal(nxm_fde_find(&in, code(&in, 460), &fde), NXM_FDE_NONE);
    assert_int_equal(nxm_fde_find(&in, code(&in, MANY * 100), &fde), NXM_FDE_NONE);
    assert_int_equal(nxm_fde_find(&in, code(&in, 0) - 1, &fde), NXM_FDE_NONE);
}

/* --- instructions --------------------------------------------------------------------------------------------------- */

static void each_instruction_takes_effect_at_its_place(void **state)
{
    struct tables tables;

    (void)state;
    make_program(&tables, BYTES(0x40 | 1, 0x0E, 16, 0x80 | FP, 2, 0x40 | 3, 0x0D, FP, 0x02, 40, 0x0A, 0x0C, SP, 8, 0xC0 | FP, 0x40 | 1,
                                0x0B, 0x03, 0x2C, 0x01, 0x0E, 80));
    assert_int_equal(rule_at(&tables, 0), plain(NXM_FROM_SP, 8, 0));
    assert_int_equal(rule_at(&tables, 1), plain(NXM_FROM_SP, 16, -16));
    assert_int_equal(rule_at(&tables, 3), plain(NXM_FROM_SP, 16, -16));
    assert_int_equal(rule_at(&tables, 4), plain(NXM_FROM_FP, 16, -16));
    assert_int_equal(rule_at(&tables, 43), plain(NXM_FROM_FP, 16, -16));
    assert_int_equal(rule_at(&tables, 44), plain(NXM_FROM_SP, 8, 0)); /* an epilogue in the middle */
    assert_int_equal(rule_at(&tables, 45), plain(NXM_FROM_FP, 16, -16));
}

static void every_way_to_say_it_is_read(void **state)
{
    (void)state;
    assert_int_equal(RULE_OF(0x0E, 0x90, 0x03), plain(NXM_FROM_SP, 400, 0));              /* two bytes of number */
    assert_int_equal(RULE_OF(0x13, 0x7E), plain(NXM_FROM_SP, 16, 0));                     /* in units, signed: -2 * -8 */
    assert_int_equal(RULE_OF(0x12, FP, 0x7E), plain(NXM_FROM_FP, 16, 0));
    assert_int_equal(RULE_OF(0x0E, 48, 0x05, FP, 3), plain(NXM_FROM_SP, 48, -24));
    assert_int_equal(RULE_OF(0x0E, 48, 0x11, FP, 3), plain(NXM_FROM_SP, 48, -24));
    assert_int_equal(nxm_rule_fp(RULE_OF(0x0E, 48, 0x2F, FP, 3)), 24);
    assert_int_equal(RULE_OF(0x0E, 16, 0x80 | FP, 2, 0x06, FP), plain(NXM_FROM_SP, 16, 0)); /* restored */
    assert_int_equal(RULE_OF(0x05, RA, 5, 0x06, RA), plain(NXM_FROM_SP, 8, 0)); /* to what the common part says */
    assert_int_equal(RULE_OF(0x0E, 16, 0x80 | FP, 2, 0x08, FP), plain(NXM_FROM_SP, 16, 0)); /* the same as ever */
    assert_int_equal(RULE_OF(0x0E, 16, 0x80 | OTHER, 2, 0x07, OTHER, 0x08, OTHER, 0x05, OTHER, 1), plain(NXM_FROM_SP, 16, 0));
    assert_int_equal(RULE_OF(0x2E, 0x90, 0x03, 0x0E, 16, 0, 0), plain(NXM_FROM_SP, 16, 0)); /* bytes of arguments; nothing */
    assert_int_equal(RULE_OF(0x0E, 16, 0x16, OTHER, 2, 0x70, 0), plain(NXM_FROM_SP, 16, 0));
    assert_int_equal(RULE_OF(0x0E, 16, 0x14, OTHER, 2, 0x15, OTHER, 2, 0x09, OTHER, 2), plain(NXM_FROM_SP, 16, 0));
    assert_int_equal(RULE_OF(0x0E, 16, 0x80 | FP, 2, 0x07, FP), plain(NXM_FROM_SP, 16, 0)); /* lost: nobody needs it */
    assert_int_equal(RULE_OF(0x0E, 16, 0x80 | OTHER, 2, 0xC0 | OTHER, 0x06, OTHER), plain(NXM_FROM_SP, 16, 0));
    assert_int_equal(RULE_OF(0x02, 51, 0x0E, 16), plain(NXM_FROM_SP, 8, 0)); /* not yet */
    assert_int_equal(RULE_OF(0x03, 51, 0, 0x0E, 16), plain(NXM_FROM_SP, 8, 0));
    assert_int_equal(RULE_OF(0x04, 51, 0, 0, 0, 0x0E, 16), plain(NXM_FROM_SP, 8, 0));
}

static void a_signature_of_the_return_address_comes_and_goes(void **state)
{
    (void)state;
    assert_int_equal(RULE_OF(0) & NXM_RULE_SIGNED, 0);
    assert_int_equal(RULE_OF(0x2D) & (NXM_RULE_SIGNED | NXM_RULE_PLAIN), NXM_RULE_SIGNED);
    assert_int_equal(RULE_OF(0x2C) & NXM_RULE_SIGNED, NXM_RULE_SIGNED);
    assert_int_equal(RULE_OF(0x0A, 0x2D, 0x0B) & NXM_RULE_SIGNED, 0);
    assert_int_equal(RULE_OF(0x2D, 0x2D), RULE_OF(0));
}

/* Behind the last one is padding, which is a number as well; once in eight there is none. */
static void an_instruction_that_is_cut_says_nothing(void **state)
{
    static const uint8_t program[8] = { 0, 0, 0, 0, 0, 0, 0, 0x0E };
    unsigned unknown = 0;

    (void)state;
    for (size_t skipped = 0; skipped < 8; skipped++)
        unknown += rule_of_program(program + skipped, sizeof program - skipped) == UNKNOWN;
    assert_int_equal(unknown, 1);
}

static void the_outermost_frame_is_the_last(void **state)
{
    (void)state;
    assert_int_equal(RULE_OF(0x07, RA), LAST);
    assert_int_equal(RULE_OF(0x07, RA, 0x0C, OTHER, 8), LAST);
}

static void what_no_rule_can_say_is_unknown(void **state)
{
    (void)state;
    assert_int_equal(RULE_OF(0x0C, OTHER, 16), UNKNOWN);           /* from another register */
    assert_int_equal(RULE_OF(0x0E, 12), UNKNOWN);                  /* no multiple of 8 */
    assert_int_equal(RULE_OF(0x09, RA, OTHER), UNKNOWN);           /* in another register */
    assert_int_equal(RULE_OF(0x14, FP, 2), UNKNOWN);               /* a value */
    assert_int_equal(RULE_OF(0x16, FP, 2, 0x70 + FP, 0), UNKNOWN); /* a value worked out */
    assert_int_equal(RULE_OF(0x80 | SP, 2), UNKNOWN);              /* the caller's stack pointer is not the CFA */
    assert_int_equal(RULE_OF(0x01, 1, 2, 3, 4), UNKNOWN);          /* an address */
    assert_int_equal(RULE_OF(0x1D), UNKNOWN);                      /* no such instruction */
    assert_int_equal(RULE_OF(0x3F), UNKNOWN);
    assert_int_equal(RULE_OF(0x0B), UNKNOWN);                      /* nothing to recall */
    assert_int_equal(RULE_OF(0x0A, 0x0A, 0x0A, 0x0A, 0x0A, 0x0A, 0x0A, 0x0A, 0x0A), UNKNOWN); /* too much to remember */
    assert_int_equal(RULE_OF(0x0F, 100, 0x77, 8), UNKNOWN);        /* an expression beyond the end */
    assert_int_equal(RULE_OF(0x0E, 0x80, 0x80, 0x80, 0x80, 0x01), UNKNOWN); /* too far */
    assert_int_equal(RULE_OF(0x0F, 1, 0x22), UNKNOWN);             /* an expression that is none */
    assert_int_equal(RULE_OF(0x0F, 1, 0x30), UNKNOWN);             /* the CFA is a number */
    assert_int_equal(RULE_OF(0x10, FP, 1, 0x22), UNKNOWN);
    assert_int_equal(RULE_OF(0x10, SP, 1, 0x22), UNKNOWN);
    assert_int_equal(RULE_OF(0x10, FP, 1, 0x30), UNKNOWN);         /* a register lies at a number */
    assert_int_equal(RULE_OF(0x10, FP, 4, 0x92, SP, 0, 0x06), UNKNOWN); /* where a word on the stack says */
    assert_int_equal(RULE_OF(0x0F, 4, 0x92, SP, 8, 0x06, 0x10, SP, 3, 0x92, FP, 8), UNKNOWN); /* two words for one stack pointer */
    assert_int_equal(RULE_OF(0x0F, 4, 0x92, SP, 8, 0x06, 0x10, SP, 3, 0x92, SP, 16), UNKNOWN);
#if defined __x86_64__
    assert_int_equal(RULE_OF(0x08, RA), UNKNOWN);                  /* a return address that no call pushed */
#endif
}

/* --- expressions ------------------------------------------------------------------------------------------------------ */

/* (pc & 15) >= 11: that many instructions into an entry of the procedure linkage table something more has been pushed. */
static void the_linkage_table_s_expression_depends_on_the_place(void **state)
{
#if defined __x86_64__
    struct tables tables;
    struct nxm_eh_frame in;

    (void)state;
    make_program(&tables, BYTES(0x0F, 11, 0x77, 8, 0x80, 0, 0x3F, 0x1A, 0x3B, 0x2A, 0x33, 0x24, 0x22));
    in = at_a_wall(&tables, tables.length);
    for (uint64_t offset = 0; offset < 100; offset++)
        assert_int_equal(rule_at(&tables, offset), plain(NXM_FROM_SP, (code(&in, offset) & 15) >= 11 ? 16 : 8, 0));
#else
    (void)state;
#endif
}

static void a_frame_that_aligned_itself_loads_its_cfa(void **state)
{
    struct nxm_rule rule = { .cfa_from = NXM_FROM_FP, .cfa = -8, .cfa_loaded = true, .ra = -8, .fp_from = NXM_FROM_FP };

    (void)state;
    assert_int_equal(RULE_OF(0x0F, 3, 0x70 + FP, 0x78, 0x06, 0x10, FP, 2, 0x70 + FP, 0), nxm_rule_pack(&rule));
}

static void a_trampoline_says_where_everything_is(void **state)
{
    struct nxm_rule rule = { .cfa_from = NXM_FROM_SP, .cfa = 160, .cfa_loaded = true, .ra_from = NXM_FROM_SP, .ra = 168,
                             .fp_from = NXM_FROM_SP, .fp = 120, .signal = true };
    struct tables tables;

    (void)state;
    make(&tables, "zRS", BYTES(0x1B),
         BYTES(0x0F, 5, 0x92, SP, 0xA0, 0x01, 0x06, 0x10, FP, 4, 0x92, SP, 0xF8, 0x00, 0x10, RA, 4, 0x92, SP, 0xA8, 0x01,
                      0x10, SP, 4, 0x92, SP, 0xA0, 0x01), 100);
    assert_int_equal(rule_at(&tables, 5), nxm_rule_pack(&rule));
}

static bool work_out(struct nxm_term *ret_term, const void *bytes, size_t size)
{
    static const struct nxm_term cfa = { NXM_TERM_CFA, false, 0 };
    struct nxm_bytes in = { bytes, (const uint8_t *)bytes + size, false };

    return nxm_cfi_expression(in, 1000, &cfa, ret_term);
}

#define NUMBER_OF(...) number_of((const uint8_t[]){ __VA_ARGS__ }, sizeof(const uint8_t[]){ __VA_ARGS__ })
static int64_t number_of(const void *bytes, size_t size)
{
    struct nxm_term term;

    assert_true(work_out(&term, bytes, size));
    assert_int_equal(term.from, NXM_TERM_NUMBER);
    return term.offset;
}

static void numbers_are_calculated(void **state)
{
    (void)state;
    assert_int_equal(NUMBER_OF(0x08, 0xFF), 255);
    assert_int_equal(NUMBER_OF(0x09, 0xFF), -1);
    assert_int_equal(NUMBER_OF(0x0A, 0xFF, 0xFF), 65535);
    assert_int_equal(NUMBER_OF(0x0B, 0xFF, 0xFF), -1);
    assert_int_equal(NUMBER_OF(0x0C, 1, 0, 0, 0x80), 0x80000001);
    assert_int_equal(NUMBER_OF(0x0D, 1, 0, 0, 0x80), (int32_t)0x80000001);
    assert_int_equal(NUMBER_OF(0x0E, 1, 0, 0, 0, 0, 0, 0, 1), 0x0100000000000001);
    assert_int_equal(NUMBER_OF(0x10, 0x81, 0x01), 129);
    assert_int_equal(NUMBER_OF(0x11, 0x7F), -1);
    assert_int_equal(NUMBER_OF(0x10, 0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0xFF, 0x7F), 1); /* beyond 64 bits */
    assert_int_equal(NUMBER_OF(0x11, 0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0xFF, 0x7F), 1);
    assert_int_equal(NUMBER_OF(0x35, 0x23, 0x0F), 20);       /* 5, and 15 more */
    assert_int_equal(NUMBER_OF(0x35, 0x3F, 0x22), 20);       /* 5 + 15 */
    assert_int_equal(NUMBER_OF(0x35, 0x3F, 0x1C), -10);      /* minus */
    assert_int_equal(NUMBER_OF(0x36, 0x33, 0x1A), 2);        /* and */
    assert_int_equal(NUMBER_OF(0x36, 0x33, 0x21), 7);        /* or */
    assert_int_equal(NUMBER_OF(0x36, 0x33, 0x27), 5);        /* exclusive or */
    assert_int_equal(NUMBER_OF(0x36, 0x33, 0x24), 48);       /* shifts */
    assert_int_equal(NUMBER_OF(0x36, 0x31, 0x25), 3);
    assert_int_equal(NUMBER_OF(0x36, 0x08, 64, 0x24), 0);
    assert_int_equal(NUMBER_OF(0x36, 0x08, 64, 0x25), 0);
    assert_int_equal(NUMBER_OF(0x33, 0x33, 0x29), 1);        /* equal, and so on */
    assert_int_equal(NUMBER_OF(0x33, 0x34, 0x2A), 0);
    assert_int_equal(NUMBER_OF(0x33, 0x33, 0x2B), 0);
    assert_int_equal(NUMBER_OF(0x33, 0x33, 0x2C), 1);
    assert_int_equal(NUMBER_OF(0x33, 0x34, 0x2D), 1);
    assert_int_equal(NUMBER_OF(0x33, 0x33, 0x2E), 0);
    assert_int_equal(NUMBER_OF(0x34, 0x12, 0x22), 8);        /* the top twice */
    assert_int_equal(NUMBER_OF(0x34, 0x35, 0x13, 0x96), 4);  /* the top off; nothing */
    assert_int_equal(NUMBER_OF(0x92, NXM_CFI_PC, 5), 1005);
}

static void an_expression_that_says_too_much_is_refused(void **state)
{
    static const struct {
        uint8_t bytes[12], size;
    } wrong[] = {
        { { 0x22 }, 1 },                                          /* one term */
        { { 0x13, 0x13 }, 2 },                                    /* none */
        { { 0x13 }, 1 },                                          /* nothing left */
        { { 0x70 + FP, 0, 0x92, SP, 0, 0x22 }, 6 },               /* two registers */
        { { 0x92, OTHER, 0 }, 3 },                                /* another register */
        { { 0x92, SP, 0, 0x06, 0x06 }, 5 },                       /* loaded twice */
        { { 0x34, 0x06 }, 2 },                                    /* from a number */
        { { 0x92, SP, 0, 0x06, 0x38, 0x22 }, 6 },                 /* beside what was loaded */
        { { 0x92, SP, 0, 0x38, 0x1A }, 5 },                       /* a register cut to some bits */
        { { 0x30, 0x30, 0x30, 0x30, 0x30, 0x30, 0x30, 0x30, 0x30 }, 9 }, /* too many */
        { { 0x0C, 1, 2 }, 3 },                                    /* cut */
        { { 0xFF }, 1 },                                          /* no such operation */
    };

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct nxm_term term;

        assert_false(work_out(&term, wrong[i].bytes, wrong[i].size));
    }
}

/* --- packing ----------------------------------------------------------------------------------------------------------- */

static void a_packed_rule_says_what_was_packed(void **state)
{
    static const int64_t cfas[] = { 8, 16, 4096, (1 << 24) - 8, -8, -(1 << 24) };
    static const int64_t nears[] = { -8, -16, 0, 65528, -65536 };

    (void)state;
    for (size_t i = 0; i < 6; i++) {
        for (size_t j = 0; j < 25; j++) {
            struct nxm_rule rule = { .cfa_from = NXM_FROM_SP, .cfa = cfas[i], .fp = nears[j % 5], .ra = nears[j / 5] };
            uint64_t packed = nxm_rule_pack(&rule);

            assert_int_equal(nxm_rule_cfa(packed), rule.cfa);
            assert_int_equal(nxm_rule_fp(packed), rule.fp);
            assert_int_equal(nxm_rule_ra(packed), rule.ra);
            assert_int_equal((packed & NXM_RULE_PLAIN) != 0,
                             rule.ra >= -rule.cfa && rule.ra <= -8 && rule.fp >= -rule.cfa && rule.fp <= -8
#if defined __x86_64__
                                 && rule.ra == -8
#endif
            );
        }
    }
}

static void an_offset_without_room_is_unknown_unless_they_are_a_pair(void **state)
{
    struct nxm_rule rule = { .cfa_from = NXM_FROM_SP, .cfa = 1 << 20, .fp = -100000, .ra = -99992 };
    uint64_t packed = nxm_rule_pack(&rule);

    (void)state;
    assert_int_equal(nxm_rule_fp(packed), -100000);
    assert_int_equal(nxm_rule_ra(packed), -99992);
    assert_int_equal(packed & NXM_RULE_PLAIN, 0);
    rule.ra = -8;
    assert_int_equal(nxm_rule_pack(&rule), UNKNOWN);
    rule = (struct nxm_rule){ .cfa_from = NXM_FROM_SP, .cfa = 1 << 24, .ra = -8 };
    assert_int_equal(nxm_rule_pack(&rule), UNKNOWN);
    rule = (struct nxm_rule){ .cfa_from = NXM_FROM_CFA, .cfa = 16, .ra = -8 };
    assert_int_equal(nxm_rule_pack(&rule), UNKNOWN);
    rule = (struct nxm_rule){ .cfa_from = NXM_FROM_SP, .cfa = 20, .ra = -8 };
    assert_int_equal(nxm_rule_pack(&rule), UNKNOWN);
    rule = (struct nxm_rule){ .cfa_from = NXM_FROM_KEPT, .cfa = 16, .ra = -8 };
    assert_int_equal(nxm_rule_pack(&rule), UNKNOWN);
    rule = (struct nxm_rule){ .cfa_from = NXM_FROM_SP, .cfa = 16, .fp = -16, .ra = -100000 };
    assert_int_equal(nxm_rule_pack(&rule), UNKNOWN);
    rule = (struct nxm_rule){ .cfa_from = NXM_FROM_SP, .cfa = 16, .fp = -(INT64_C(1) << 40), .ra = 8 - (INT64_C(1) << 40) };
    assert_int_equal(nxm_rule_pack(&rule), UNKNOWN); /* not even they */
}

/* --- the cache ---------------------------------------------------------------------------------------------------------- */

static void a_slot_that_two_threads_wrote_is_a_miss(void **state)
{
    uint64_t one = nxm_rule_key(0x401000, 1), other = 0;
    struct nxm_rule_slot mixed;

    (void)state;
    for (uint64_t address = 0x402000; other == 0; address++) {
        if (nxm_rule_slot(nxm_rule_key(address, 1)) == nxm_rule_slot(one))
            other = nxm_rule_key(address, 1);
    }
    assert_int_equal(nxm_rule_cached(one), 0);
    nxm_rule_keep(one, plain(NXM_FROM_SP, 8, 0));
    assert_int_equal(nxm_rule_cached(one), plain(NXM_FROM_SP, 8, 0));
    assert_int_equal(nxm_rule_cached(nxm_rule_key(0x401000, 2)), 0); /* another image there */
    assert_int_equal(nxm_rule_cached(other), 0);
    mixed.check = atomic_load(&nxm_rule_slot(one)->check);
    nxm_rule_keep(other, plain(NXM_FROM_SP, 16, 0));
    assert_int_equal(nxm_rule_cached(one), 0);
    assert_int_equal(nxm_rule_known(one), plain(NXM_FROM_SP, 8, 0)); /* it went beside */
    assert_int_equal(nxm_rule_known(other), plain(NXM_FROM_SP, 16, 0));
    assert_int_equal(nxm_rule_known(nxm_rule_key(0x401000, 2)), 0);
    atomic_store(&nxm_rule_slot(one)->check, mixed.check); /* one thread's half, and the other's */
    assert_int_equal(nxm_rule_cached(one), 0);
    assert_int_equal(nxm_rule_cached(other), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_is_found_in_its_function_only),
        cmocka_unit_test(an_image_without_tables_has_nothing),
        cmocka_unit_test(what_is_written_otherwise_is_strange),
        cmocka_unit_test(letters_of_the_common_part_are_understood_or_refused),
        cmocka_unit_test(a_personality_in_any_form_is_stepped_over),
        cmocka_unit_test(an_address_may_be_counted_from_here_from_the_header_or_from_nowhere),
        cmocka_unit_test(the_common_part_names_the_return_address_s_register),
        cmocka_unit_test(tables_may_end_anywhere),
        cmocka_unit_test(a_length_of_64_bits_is_read),
        cmocka_unit_test(the_right_one_of_many_functions_is_found),
        cmocka_unit_test(each_instruction_takes_effect_at_its_place),
        cmocka_unit_test(every_way_to_say_it_is_read),
        cmocka_unit_test(a_signature_of_the_return_address_comes_and_goes),
        cmocka_unit_test(an_instruction_that_is_cut_says_nothing),
        cmocka_unit_test(the_outermost_frame_is_the_last),
        cmocka_unit_test(what_no_rule_can_say_is_unknown),
        cmocka_unit_test(the_linkage_table_s_expression_depends_on_the_place),
        cmocka_unit_test(a_frame_that_aligned_itself_loads_its_cfa),
        cmocka_unit_test(a_trampoline_says_where_everything_is),
        cmocka_unit_test(numbers_are_calculated),
        cmocka_unit_test(an_expression_that_says_too_much_is_refused),
        cmocka_unit_test(a_packed_rule_says_what_was_packed),
        cmocka_unit_test(an_offset_without_room_is_unknown_unless_they_are_a_pair),
        cmocka_unit_test(a_slot_that_two_threads_wrote_is_a_miss),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
