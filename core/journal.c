#include "journal.h"

#include <string.h>

#include "text.h"

static struct nxm_journal *_Atomic journal;

struct nxm_journal *nxm_journal(void)
{
    return atomic_load_explicit(&journal, memory_order_acquire);
}

void nxm_journal_keep(struct nxm_journal *made)
{
    atomic_store_explicit(&journal, made, memory_order_release);
}

void nxm_journal_add(enum nxm_journal_sum which, uint64_t bytes)
{
    struct nxm_journal *to = nxm_journal();

    if (to == NULL)
        return;
    atomic_fetch_add_explicit(&to->sums[which].blocks, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&to->sums[which].bytes, bytes, memory_order_relaxed);
}

void nxm_journal_gate(const struct nxm_gate *gate, const char *extra)
{
    struct nxm_journal *to = nxm_journal();

    if (to == NULL)
        return;
    to->gate = *gate;
    nxm_journal_text(to->gate_extra, sizeof to->gate_extra, extra);
    atomic_store(&to->gate_known, 1);
}

void nxm_journal_device_memory(const struct nxm_device_memory *memory)
{
    struct nxm_journal *to = nxm_journal();

    if (to == NULL || memory->device < 0 || memory->device >= NXM_JOURNAL_DEVICES)
        return;
    atomic_store(&to->device_memory[memory->device].used, memory->used);
    atomic_store(&to->device_memory[memory->device].recorded, memory->recorded);
    atomic_store(&to->device_memory[memory->device].asked, 1);
}

void nxm_journal_ended(void)
{
    if (nxm_journal() != NULL)
        atomic_store(&nxm_journal()->ended, 1);
}

void nxm_journal_text(char *ret_field, size_t capacity, const char *s)
{
    struct nxm_text text;

    nxm_text_init(&text, ret_field, capacity);
    nxm_text_printf(&text, "%s", s == NULL ? "" : s);
}
