#include "owned.h"

#include <stdatomic.h>
#include <string.h>

#include "core/lock.h"
#include "core/log.h"
#include "core/mem.h"
#include "scope.h"
#include "thread.h"

struct range {
    uint64_t address, bytes;
};

static struct nxm_lock lock = NXM_LOCK_INIT(NXM_RANK_OBJECTS);
static struct range *ranges; /* sorted by address, disjoint */
static size_t count, capacity;
static _Atomic size_t published_count; /* for the common question when there is none */

/* Index of the first range that starts above `address`. */
static size_t above(uint64_t address)
{
    size_t low = 0, high = count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ranges[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool grow(void)
{
    size_t wanted = capacity ? 2 * capacity : 256;
    struct range *larger = nxm_mem_map(wanted * sizeof *larger);

    if (!larger)
        return false;
    if (ranges) {
        memcpy(larger, ranges, count * sizeof *ranges);
        nxm_mem_unmap(ranges, capacity * sizeof *ranges);
    }
    ranges = larger;
    capacity = wanted;
    return true;
}

static void insert(uint64_t address, uint64_t bytes)
{
    bool kept = true;

    nxm_lock_acquire(&lock);
    size_t at = above(address);
    if (at > 0 && ranges[at - 1].address == address) {
        ranges[at - 1].bytes = bytes; /* freed by a route we do not see, and handed out again */
    } else if (count < capacity || grow()) {
        memmove(ranges + at + 1, ranges + at, (count - at) * sizeof *ranges);
        ranges[at] = (struct range){ address, bytes };
        atomic_store_explicit(&published_count, ++count, memory_order_relaxed);
    } else {
        kept = false;
    }
    nxm_lock_release(&lock);
    if (!kept) {
        static int once;
        nxm_log_once(&once, "no memory to remember a plugin's own range; a wrong free of it would reach the driver");
    }
}

/* Of a quiet allocation (quiet.h) the scope says it. */
static bool block_is_range(void)
{
    return nxm_thread.block_is_range || (nxm_thread.busy == NXM_QUIETLY_ALLOCATES && nxm_thread.place.scope->block_is_range);
}

CUresult nxm_owned_allocated(CUresult result, uint64_t address, uint64_t bytes)
{
    if (result != CUDA_SUCCESS)
        nxm_thread.nested_error = result;
    else if (address != 0 && !block_is_range())
        insert(address, bytes);
    return result;
}

uint64_t nxm_owned_take(uint64_t address)
{
    uint64_t bytes = 0;

    if (atomic_load_explicit(&published_count, memory_order_relaxed) == 0)
        return 0;
    nxm_lock_acquire(&lock);
    size_t at = above(address);
    if (at > 0 && ranges[at - 1].address == address) {
        bytes = ranges[at - 1].bytes;
        memmove(ranges + at - 1, ranges + at, (count - at) * sizeof *ranges);
        atomic_store_explicit(&published_count, --count, memory_order_relaxed);
    }
    nxm_lock_release(&lock);
    return bytes;
}

CUresult nxm_owned_freed(CUresult result, uint64_t address, uint64_t taken_bytes)
{
    if (result != CUDA_SUCCESS) {
        nxm_thread.nested_error = result;
        if (taken_bytes != 0)
            insert(address, taken_bytes);
    }
    return result;
}

bool nxm_owned_contains(uint64_t address)
{
    bool inside = false;

    if (atomic_load_explicit(&published_count, memory_order_relaxed) == 0)
        return false;
    nxm_lock_acquire(&lock);
    size_t at = above(address);
    if (at > 0)
        inside = address - ranges[at - 1].address < ranges[at - 1].bytes;
    nxm_lock_release(&lock);
    return inside;
}
