/* A device's address range: one memfd mapped once, so that its addresses are recognised whoever asks and another
 * process can map them (IPC). Owns the free ranges; which ranges are live is the business of block.h. All
 * functions: the state lock is held. */
#ifndef SIM_ARENA_H
#define SIM_ARENA_H

#include "range.h"

#include <stdbool.h>

enum { SIM_ALIGNMENT = 512 };

struct sim_arena {
    uint64_t base, size;
    int fd;
    struct sim_ranges free;
};

/* 0, or -1 when the range cannot be reserved. */
int sim_arena_open(struct sim_arena *, uint64_t size);
/* An address with `size` bytes (a multiple of the alignment), 0 when no range is large enough. */
uint64_t sim_arena_take(struct sim_arena *, uint64_t size);
void sim_arena_give(struct sim_arena *, uint64_t address, uint64_t size);
/* What is given back is overwritten, so that whoever reads it again sees what no program wrote: both ends, up to
 * SIM_POISONED bytes each. On unless SIMCUDA_POISON is 0. */
enum { SIM_POISON = 0xdb, SIM_POISONED = 4096 };
void sim_arena_set_poison(bool on);
/* The same where an address is given from one owner to the next without coming back here. */
void sim_arena_poison(uint64_t address, uint64_t size);
bool sim_arena_holds(const struct sim_arena *, uint64_t address);

#endif
