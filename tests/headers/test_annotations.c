/* The NXMEM_LAYOUT comments of the ABI header, read as text, against the table of the contract's figures: every
 * struct and field is annotated, in order, with the right numbers, and stands in the struct it names. Run from the
 * top of the tree. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HEADER "include/nxmem_memory_abi.h"
#define NAME_MAX_BYTES 64

struct struct_row {
    const char *name;
    unsigned long size, align;
};

struct field_row {
    const char *owner, *name;
    unsigned long offset, size;
};

static const struct struct_row structs[] = {
#define STRUCT(name, size, align) {#name, size, align},
#include "layout_table.h"
};

static const struct field_row fields[] = {
#define FIELD(struct_, field, offset, size) {#struct_, #field, offset, size},
#include "layout_table.h"
};

#define STRUCTS (sizeof structs / sizeof *structs)
#define FIELDS (sizeof fields / sizeof *fields)

static int read_header(void **state) {
    FILE *file = fopen(HEADER, "r");
    if (!file || fseek(file, 0, SEEK_END) != 0) return -1;
    size_t size = (size_t)ftell(file);
    char *text = calloc(1, size + 1);
    rewind(file);
    if (!text || fread(text, 1, size, file) != size) return -1;
    fclose(file);
    *state = text;
    return 0;
}

static int free_header(void **state) {
    free(*state);
    return 0;
}

static void structs_are_annotated_in_order_with_the_right_figures(void **state) {
    size_t count = 0;
    for (const char *at = *state; (at = strstr(at, "NXMEM_LAYOUT: ")) != NULL; at++, count++) {
        char name[NAME_MAX_BYTES];
        unsigned long size, align;
        assert_int_equal(sscanf(at, "NXMEM_LAYOUT: %63s size=%lu align=%lu", name, &size, &align), 3);
        assert_true(count < STRUCTS);
        assert_string_equal(name, structs[count].name);
        assert_int_equal(size, structs[count].size);
        assert_int_equal(align, structs[count].align);
    }
    assert_int_equal(count, STRUCTS);
}

static void fields_are_annotated_in_order_with_the_right_figures(void **state) {
    size_t count = 0;
    for (const char *at = *state; (at = strstr(at, "NXMEM_LAYOUT_FIELD: ")) != NULL; at++, count++) {
        char owner[NAME_MAX_BYTES], name[NAME_MAX_BYTES];
        unsigned long offset, size;
        assert_int_equal(sscanf(at, "NXMEM_LAYOUT_FIELD: %63[^.].%63s offset=%lu size=%lu", owner, name, &offset,
                                &size), 4);
        assert_true(count < FIELDS);
        assert_string_equal(owner, fields[count].owner);
        assert_string_equal(name, fields[count].name);
        assert_int_equal(offset, fields[count].offset);
        assert_int_equal(size, fields[count].size);
    }
    assert_int_equal(count, FIELDS);
}

/* A comment may drift away from the line it describes: the declaration on that line must name the field. */
static void each_field_annotation_stands_beside_its_declaration(void **state) {
    for (const char *at = *state; (at = strstr(at, "/* NXMEM_LAYOUT_FIELD: ")) != NULL; at++) {
        char name[NAME_MAX_BYTES], line[512];
        assert_int_equal(sscanf(at, "/* NXMEM_LAYOUT_FIELD: %*[^.].%63s", name), 1);
        const char *start = at;
        while (start > (const char *)*state && start[-1] != '\n') start--;
        size_t length = (size_t)(at - start);
        assert_true(length < sizeof line);
        memcpy(line, start, length);
        line[length] = '\0';
        const char *declared = strstr(line, name);
        assert_non_null(declared);
        while (strstr(declared + 1, name)) declared = strstr(declared + 1, name);
        char end = declared[strlen(name)];
        if (strstr(line, "(*")) { /* a slot: the name is the pointer's, not a parameter's */
            declared = strstr(line, "(*") + 2;
            assert_memory_equal(declared, name, strlen(name));
            end = declared[strlen(name)];
            assert_int_equal(end, ')');
        } else {
            assert_true(end == ';' || end == '[');
            assert_true(declared[-1] == ' ' || declared[-1] == '*');
        }
    }
}

static void every_struct_of_the_header_is_annotated(void **state) {
    size_t count = 0;
    for (const char *at = *state; (at = strstr(at, "\ntypedef struct ")) != NULL; at++, count++) {
        char name[NAME_MAX_BYTES];
        assert_int_equal(sscanf(at, "\ntypedef struct %63s", name), 1);
        assert_true(count < STRUCTS);
        assert_string_equal(name, structs[count].name);
    }
    assert_int_equal(count, STRUCTS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(structs_are_annotated_in_order_with_the_right_figures),
        cmocka_unit_test(fields_are_annotated_in_order_with_the_right_figures),
        cmocka_unit_test(each_field_annotation_stands_beside_its_declaration),
        cmocka_unit_test(every_struct_of_the_header_is_annotated),
    };
    return cmocka_run_group_tests(tests, read_header, free_header);
}
