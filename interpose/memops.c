#include "memops.h"

#include <string.h>

#include "core/lock.h"
#include "core/mem.h"
#include "core/result.h"
#include "process.h"

struct marked {
    uint64_t address, id;
};

static struct nxm_lock lock = NXM_LOCK_INIT(NXM_RANK_OBJECTS);
static struct marked *list;
static size_t count, capacity;

/* Index of the block, or `count`. */
static size_t find(const struct nxm_block *block)
{
    size_t i = 0;

    while (i < count && list[i].id != block->id)
        i++;
    return i;
}

bool nxm_memops_are_synchronous(const struct nxm_block *block)
{
    nxm_lock_acquire(&lock);
    bool marked = find(block) < count;
    nxm_lock_release(&lock);
    return marked;
}

/* Blocks that are gone need no mark. */
static void forget_gone(void)
{
    struct nxm_block block;

    for (size_t i = count; i-- > 0;) {
        if (nxm_blocks_find(nxm_table(NXM_TABLE_MEMORY), list[i].address, &block) != NXM_OK || block.id != list[i].id)
            list[i] = list[--count];
    }
}

static bool grow(void)
{
    size_t wanted = capacity ? 2 * capacity : 256;
    struct marked *larger = nxm_mem_map(wanted * sizeof *larger);

    if (!larger)
        return false;
    if (list) {
        memcpy(larger, list, count * sizeof *list);
        nxm_mem_unmap(list, capacity * sizeof *list);
    }
    list = larger;
    capacity = wanted;
    return true;
}

bool nxm_memops_set(const struct nxm_block *block, bool synchronous)
{
    bool done = true;

    nxm_lock_acquire(&lock);
    size_t at = find(block);
    if (synchronous && at == count && count == capacity) {
        forget_gone();
        at = count;
    }
    if (!synchronous && at < count)
        list[at] = list[--count];
    else if (synchronous && at == count && (count < capacity || grow()))
        list[count++] = (struct marked){ block->address, block->id };
    else
        done = !synchronous || at < count;
    nxm_lock_release(&lock);
    return done;
}
