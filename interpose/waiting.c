#include "waiting.h"

#include "core/mem.h"

struct nxm_waiting *nxm_waiting_new(const struct nxm_block *block)
{
    struct nxm_waiting *entry = nxm_mem_new(sizeof *entry);

    if (entry) {
        entry->scope = (struct nxm_scope *)(uintptr_t)block->tag;
        entry->address = block->address;
        entry->id = block->id;
        entry->bytes = block->bytes;
    }
    return entry;
}

void nxm_waiting_free(struct nxm_waiting *entry)
{
    if (entry && entry->event && !atomic_load(&entry->orphan))
        nxm_event_give(entry->context, entry->event);
    nxm_mem_free(entry);
}
