#include "error.h"

#include <stdarg.h>

#include "text.h"

/* A line is one line, whatever a plugin's message contains. */
static void flatten(char *s)
{
    for (; *s != '\0'; s++) {
        if ((unsigned char)*s < 0x20 || *s == 0x7f)
            *s = ' ';
    }
}

int nxm_error_set(struct nxm_error *ret_error, enum nxm_result code, uint32_t status, const char *format, ...)
{
    struct nxm_text text;
    va_list arguments;

    if (ret_error == NULL)
        return code;
    ret_error->code = code;
    ret_error->status = status;
    nxm_text_init(&text, ret_error->text, sizeof ret_error->text);
    va_start(arguments, format);
    nxm_text_vprintf(&text, format, arguments);
    va_end(arguments);
    flatten(ret_error->text);
    return code;
}
