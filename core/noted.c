#include "noted.h"

#include "text.h"

bool nxm_noted_read(const struct nxm_noted_table *table, size_t index, struct nxm_noted *ret_noted)
{
    if (index >= NXM_NOTED_MAX || __atomic_load_n(&table->state[index], __ATOMIC_ACQUIRE) != NXM_NOTED_FULL)
        return false;
    *ret_noted = table->list[index];
    ret_noted->text[NXM_NAME_BYTES - 1] = '\0';
    ret_noted->found = __atomic_load_n(&table->list[index].found, __ATOMIC_RELAXED);
    return true;
}

void nxm_noted_name(const struct nxm_noted *noted, char ret_text[NXM_NOTED_TEXT])
{
    struct nxm_text text;

    nxm_text_init(&text, ret_text, NXM_NOTED_TEXT);
    nxm_text_printf(&text, "%s", noted->text);
    if (noted->version != 0)
        nxm_text_printf(&text, " (version %d)", noted->version);
}

void nxm_noted_file(const struct nxm_noted *noted, char ret_text[NXM_NOTED_TEXT])
{
    struct nxm_text text;

    nxm_text_init(&text, ret_text, NXM_NOTED_TEXT);
    nxm_text_printf(&text, "%s%s", noted->text, noted->found ? " (a namespace of its own)" : " (RTLD_DEEPBIND)");
}
