#include "log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#include "output.h"
#include "text.h"

#define LINE_MAX_BYTES 1024

atomic_int nxm_log_shown = NXM_LOG_WARNING;
static atomic_int home; /* pid that spoke first; a child that inherits it stays silent */

static bool at_home(void)
{
    int self = (int)getpid(), unset = 0;

    return atomic_compare_exchange_strong(&home, &unset, self) || unset == self;
}

void nxm_log_set_level(enum nxm_log_level level)
{
    (void)at_home();
    atomic_store_explicit(&nxm_log_shown, (int)level, memory_order_relaxed);
}

enum nxm_log_level nxm_log_level(void)
{
    return (enum nxm_log_level)atomic_load_explicit(&nxm_log_shown, memory_order_relaxed);
}

static void show(const char *format, va_list arguments)
{
    char line[LINE_MAX_BYTES];
    struct nxm_text text;

    if (!at_home())
        return;
    nxm_text_init(&text, line, sizeof line - 1); /* the newline's place */
    nxm_text_printf(&text, "nxmem: ");
    nxm_text_vprintf(&text, format, arguments);
    nxm_text_flatten(line); /* a line is one line, whatever a plugin's message contains */
    line[text.length] = '\n';
    nxm_output_write(STDERR_FILENO, line, text.length + 1);
}

void nxm_log(enum nxm_log_level level, const char *format, ...)
{
    va_list arguments;

    if (level > nxm_log_level())
        return;
    va_start(arguments, format);
    show(format, arguments);
    va_end(arguments);
}

void nxm_log_once(int *flag, const char *format, ...)
{
    va_list arguments;

    if (nxm_log_level() < NXM_LOG_WARNING || __atomic_load_n(flag, __ATOMIC_RELAXED) != 0 || __atomic_exchange_n(flag, 1, __ATOMIC_RELAXED) != 0)
        return;
    va_start(arguments, format);
    show(format, arguments);
    va_end(arguments);
}
