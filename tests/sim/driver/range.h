/* Address ranges kept in order (a treap), each node remembering the largest range below it. Owns no node; the
 * caller's lock guards a tree. */
#ifndef SIM_RANGE_H
#define SIM_RANGE_H

#include <stdint.h>

struct sim_range {
    struct sim_range *left, *right;
    uint64_t start, size, largest;
    uint32_t priority;
};

struct sim_ranges {
    struct sim_range *root;
};

void sim_range_insert(struct sim_ranges *, struct sim_range *node);
void sim_range_remove(struct sim_ranges *, struct sim_range *node);
/* Gives a node of the tree another start and size; its place among the others must stay the same. */
void sim_range_resize(struct sim_ranges *, struct sim_range *node, uint64_t start, uint64_t size);
struct sim_range *sim_range_containing(const struct sim_ranges *, uint64_t address);
/* The range with the greatest start at or below, or the least start at or above, an address; NULL if none. */
struct sim_range *sim_range_floor(const struct sim_ranges *, uint64_t address);
struct sim_range *sim_range_ceiling(const struct sim_ranges *, uint64_t address);
/* The lowest range of at least `size` bytes, or NULL. */
struct sim_range *sim_range_first_fit(const struct sim_ranges *, uint64_t size);

#endif
