#include "waiting.h"

#include <string.h>

#include "core/mem.h"

/* A free must not fail for want of memory of ours: so many may wait beyond it. */
#define RESERVE 64
static struct nxm_waiting reserve[RESERVE];
static _Atomic bool reserved[RESERVE];

static struct nxm_waiting *from_reserve(void)
{
    for (int i = 0; i < RESERVE; i++) {
        if (!atomic_exchange(&reserved[i], true)) {
            memset(&reserve[i], 0, sizeof reserve[i]);
            return &reserve[i];
        }
    }
    return NULL;
}

static void release_record(struct nxm_waiting *entry)
{
    if (entry >= reserve && entry < reserve + RESERVE)
        atomic_store(&reserved[entry - reserve], false);
    else
        nxm_mem_free(entry);
}

struct nxm_waiting *nxm_waiting_new(const struct nxm_block *block)
{
    struct nxm_waiting *entry = nxm_mem_new(sizeof *entry);

    if (!entry)
        entry = from_reserve();
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
    if (!entry)
        return;
    if (entry->event && !atomic_load(&entry->orphan))
        nxm_event_give(entry->context, entry->event);
    release_record(entry);
}
