#include "option_table.h"

#include <stddef.h>
#include <stdio.h>

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
