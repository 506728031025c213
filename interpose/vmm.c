#include "vmm.h"

#include <string.h>

#include "core/blocks.h"
#include "core/lock.h"
#include "core/log.h"
#include "core/mem.h"
#include "process.h"
#include "order.h"
#include "serve.h"

struct physical {
    struct physical *next;
    uint64_t number; /* key in the table of created memory */
    CUmemGenericAllocationHandle handle;
    unsigned handles, maps;
};

static struct nxm_lock lock = NXM_LOCK_INIT(NXM_RANK_OBJECTS);
static struct physical *all;
static uint64_t last_number;

/* Under the lock. Only one living memory has a given handle value with uses left. */
static struct physical *by_handle(CUmemGenericAllocationHandle handle)
{
    struct physical *p = all;

    while (p && (p->handle != handle || p->handles == 0))
        p = p->next;
    return p;
}

static struct physical *by_number(uint64_t number)
{
    struct physical *p = all;

    while (p && p->number != number)
        p = p->next;
    return p;
}

/* Under the lock: unlinks the memory when its last use is gone, and returns its number for the table. */
static uint64_t drop_if_unused(struct physical *p)
{
    uint64_t number = p->number;

    if (p->handles != 0 || p->maps != 0)
        return 0;
    for (struct physical **link = &all; *link; link = &(*link)->next) {
        if (*link == p) {
            *link = p->next;
            break;
        }
    }
    nxm_mem_free(p);
    return number;
}

static void remove_created(uint64_t number)
{
    struct nxm_block block;

    if (number == 0)
        return;
    nxm_record_free_begin(nxm_table(NXM_TABLE_CREATED), number, &block);
    nxm_record_free_end(nxm_table(NXM_TABLE_CREATED), &block, true);
}

static uint64_t add_physical(CUmemGenericAllocationHandle handle)
{
    struct physical *p = nxm_mem_new(sizeof *p);
    uint64_t number = 0;

    if (p) {
        p->handle = handle;
        p->handles = 1;
        nxm_lock_acquire(&lock);
        p->number = number = ++last_number;
        p->next = all;
        all = p;
        nxm_lock_release(&lock);
    } else {
        static int once;
        nxm_log_once(&once, "no memory to follow a cuMemCreate: the report will miss it");
    }
    return number;
}

void nxm_vmm_created(CUmemGenericAllocationHandle handle, uint64_t bytes, int device, enum nxm_api api)
{
    struct nxm_block block = { .bytes = bytes, .class_ = NXM_CLASS_VMM_CREATED, .api = (uint16_t)api, .device = device,
                               .tag = handle };

    block.address = add_physical(handle);
    if (block.address != 0)
        nxm_record(nxm_table(NXM_TABLE_CREATED), &block);
}

void nxm_vmm_imported(CUmemGenericAllocationHandle handle, enum nxm_api api)
{
    struct nxm_block block = { .class_ = NXM_CLASS_IMPORTED, .api = (uint16_t)api, .device = -1, .tag = handle };

    block.address = add_physical(handle);
    if (block.address != 0)
        nxm_record(nxm_table(NXM_TABLE_CREATED), &block);
}

void nxm_vmm_retained(CUmemGenericAllocationHandle handle, uint64_t address)
{
    struct nxm_block map;

    if (nxm_blocks_containing(nxm_table(NXM_TABLE_MAPPED), address, &map) != NXM_OK)
        return;
    nxm_lock_acquire(&lock);
    struct physical *p = by_number(map.tag);
    if (p) {
        p->handle = handle;
        p->handles++;
    }
    nxm_lock_release(&lock);
}

uint64_t nxm_vmm_release_begin(CUmemGenericAllocationHandle handle)
{
    uint64_t number = 0;

    nxm_lock_acquire(&lock);
    struct physical *p = by_handle(handle);
    if (p) {
        p->handles--;
        number = p->number;
    }
    nxm_lock_release(&lock);
    return number;
}

void nxm_vmm_release_end(CUmemGenericAllocationHandle handle, uint64_t number, int released)
{
    uint64_t gone = 0;

    if (number == 0)
        return;
    nxm_lock_acquire(&lock);
    struct physical *p = by_number(number);
    if (p && !released) {
        p->handle = handle;
        p->handles++;
    } else if (p) {
        gone = drop_if_unused(p);
    }
    nxm_lock_release(&lock);
    remove_created(gone);
}

void nxm_vmm_mapped(uint64_t address, uint64_t bytes, CUmemGenericAllocationHandle handle, enum nxm_api api)
{
    struct nxm_block block = { .address = address, .bytes = bytes, .class_ = NXM_CLASS_VMM_MAPPED, .api = (uint16_t)api,
                               .device = -1 };

    nxm_lock_acquire(&lock);
    struct physical *p = by_handle(handle);
    if (p) {
        p->maps++;
        block.tag = p->number;
    }
    nxm_lock_release(&lock);
    nxm_record(nxm_table(NXM_TABLE_MAPPED), &block);
}

static void unmapped_one(const struct nxm_block *map)
{
    uint64_t gone = 0;

    nxm_lock_acquire(&lock);
    struct physical *p = by_number(map->tag);
    if (p && p->maps > 0) {
        p->maps--;
        gone = drop_if_unused(p);
    }
    nxm_lock_release(&lock);
    remove_created(gone);
}

/* The driver unmaps whole mappings only, and one call may span several: they lie end to end. */
void nxm_vmm_unmapped(uint64_t address, uint64_t bytes)
{
    struct nxm_blocks *mapped = nxm_table(NXM_TABLE_MAPPED);
    struct nxm_block map;
    uint64_t end = address + bytes;

    while (address < end) {
        if (nxm_blocks_claim(mapped, address, 0, NXM_BLOCK_LIVE, NXM_BLOCK_RELEASING, &map) != NXM_OK)
            break;
        nxm_blocks_remove(mapped, map.address, map.id);
        unmapped_one(&map);
        address += map.bytes;
    }
}
