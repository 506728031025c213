#include "say.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>

#include "core/text.h"

void probe_say(const char *format, ...) {
    char line[2 * PATH_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    nxm_text_flatten(line);
    fprintf(stderr, "nxrun: %s\n", line);
}
