#include "option_table.h"

#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "core/options.h"
#include "core/text.h"

struct row {
    const char *field, *type, *name, *fallback, *values, *help;
};

static const struct row rows[] = {
#define OPTION(field, type, name, fallback, values, help) {#field, #type, name, fallback, values, help},
#include "core/options.def"
#undef OPTION
};

static const char *or_dash(const char *text) {
    return *text ? text : "-";
}

/* A field is a C name, an option is typed: on_error is --on-error. */
static void print_option_name(const char *field) {
    for (; *field; field++) putchar(*field == '_' ? '-' : *field);
}

void probe_print_options(void) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *row = &rows[i];
        print_option_name(row->field);
        printf("\t%s\t%s\t%s\t%s\t%s\n", row->name, row->type, or_dash(row->fallback), or_dash(row->values),
               row->help);
    }
}

bool probe_print_almost(const char *typed) {
    char name[64];
    struct nxm_text text;
    nxm_text_init(&text, name, sizeof name);
    nxm_text_printf(&text, "NXMEM_%s", typed);
    for (char *at = name; *at; at++) *at = *at == '-' ? '_' : (char)toupper((unsigned char)*at);
    const char *almost = nxm_options_almost(name, text.length);
    for (size_t i = 0; almost && i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].name, almost) != 0) continue;
        print_option_name(rows[i].field);
        putchar('\n');
    }
    return almost;
}
