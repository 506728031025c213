#include "error.h"

#include <stdarg.h>

#include "text.h"

int nxm_error_set(struct nxm_error *ret_error, enum nxm_result code, uint32_t status, const char *format, ...)
{
    struct nxm_text text;
    va_list arguments;

    if (ret_error == NULL)
        return code;
    ret_error->code = code;
    ret_error->status = status;
    ret_error->what = NULL;
    nxm_text_init(&text, ret_error->text, sizeof ret_error->text);
    va_start(arguments, format);
    nxm_text_vprintf(&text, format, arguments);
    va_end(arguments);
    nxm_text_flatten(ret_error->text); /* as a line of a log must be */
    return code;
}
