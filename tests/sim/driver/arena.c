#include "arena.h"

#include "setting.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PUNCH_FROM = 1 << 20 }; /* freed ranges from here on give their pages back to the system */

int sim_arena_open(struct sim_arena *a, uint64_t size)
{
    a->fd = memfd_create("simcuda-device", MFD_CLOEXEC);
    if (a->fd < 0) return -1;
    void *base = MAP_FAILED;
    if (ftruncate(a->fd, (off_t)size) == 0)
        base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, a->fd, 0);
    if (base == MAP_FAILED) {
        close(a->fd);
        return -1;
    }
    a->base = (uint64_t)(uintptr_t)base;
    a->size = size;
    a->free.root = NULL;
    sim_arena_give(a, a->base, size);
    return 0;
}

static bool poisons = true;

void sim_arena_set_poison(bool on)
{
    poisons = on;
}

__attribute__((constructor)) static void read_environment(void)
{
    poisons = sim_setting_bool(SIM_SETTING_POISON, true);
}

void sim_arena_poison(uint64_t address, uint64_t size)
{
    uint64_t end = size < SIM_POISONED ? size : SIM_POISONED;
    if (!poisons) return;
    memset((void *)(uintptr_t)address, SIM_POISON, end);
    if (size > end) memset((void *)(uintptr_t)(address + size - end), SIM_POISON, end);
}

uint64_t sim_arena_take(struct sim_arena *a, uint64_t size)
{
    struct sim_range *r = sim_range_first_fit(&a->free, size);
    if (!r) return 0;
    uint64_t address = r->start;
    if (r->size > size) {
        sim_range_resize(&a->free, r, address + size, r->size - size);
    } else {
        sim_range_remove(&a->free, r);
        free(r);
    }
    return address;
}

void sim_arena_give(struct sim_arena *a, uint64_t address, uint64_t size)
{
    if (size >= PUNCH_FROM && size < a->size)
        fallocate(a->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)(address - a->base), (off_t)size);
    if (size < a->size) sim_arena_poison(address, size); /* all of it is given once, when the arena is opened */
    struct sim_range *before = address ? sim_range_floor(&a->free, address) : NULL;
    struct sim_range *after = sim_range_ceiling(&a->free, address);
    bool joins_before = before && before->start + before->size == address;
    bool joins_after = after && after->start == address + size;
    if (joins_before && joins_after) {
        size += after->size;
        sim_range_remove(&a->free, after);
        free(after);
    }
    if (joins_before) {
        sim_range_resize(&a->free, before, before->start, before->size + size);
    } else if (joins_after) {
        sim_range_resize(&a->free, after, address, after->size + size);
    } else if ((after = calloc(1, sizeof *after))) { /* else the range is lost, nothing else is */
        after->start = address;
        after->size = size;
        sim_range_insert(&a->free, after);
    }
}

bool sim_arena_holds(const struct sim_arena *a, uint64_t address)
{
    return address - a->base < a->size;
}
