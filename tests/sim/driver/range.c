#include "range.h"

#include <stddef.h>

/* Addresses are scrambled into priorities: no state, and the same tree for the same set. */
static uint32_t priority_of(uint64_t start)
{
    uint64_t x = start * 0x9e3779b97f4a7c15ull;
    return (uint32_t)(x >> 32) ^ (uint32_t)x;
}

static void update(struct sim_range *n)
{
    n->largest = n->size;
    if (n->left && n->left->largest > n->largest) n->largest = n->left->largest;
    if (n->right && n->right->largest > n->largest) n->largest = n->right->largest;
}

/* Splits a tree into the starts below an address and the rest. */
static void split(struct sim_range *n, uint64_t address, struct sim_range **below, struct sim_range **rest)
{
    if (!n) {
        *below = *rest = NULL;
    } else if (n->start < address) {
        split(n->right, address, &n->right, rest);
        *below = n;
        update(n);
    } else {
        split(n->left, address, below, &n->left);
        *rest = n;
        update(n);
    }
}

static struct sim_range *join(struct sim_range *a, struct sim_range *b)
{
    if (!a || !b) return a ? a : b;
    if (a->priority > b->priority) {
        a->right = join(a->right, b);
        update(a);
        return a;
    }
    b->left = join(a, b->left);
    update(b);
    return b;
}

static struct sim_range *removed(struct sim_range *n, const struct sim_range *node)
{
    if (!n) return NULL;
    if (n == node) return join(n->left, n->right);
    if (node->start < n->start) n->left = removed(n->left, node);
    else n->right = removed(n->right, node);
    update(n);
    return n;
}

static struct sim_range **side_of(struct sim_range *n, uint64_t start)
{
    return start < n->start ? &n->left : &n->right;
}

/* What a node adds can only raise what those above it remember: one way down, and a split below. */
void sim_range_insert(struct sim_ranges *t, struct sim_range *node)
{
    struct sim_range **link = &t->root;
    node->priority = priority_of(node->start);
    while (*link && (*link)->priority >= node->priority) {
        if ((*link)->largest < node->size) (*link)->largest = node->size;
        link = side_of(*link, node->start);
    }
    split(*link, node->start, &node->left, &node->right);
    update(node);
    *link = node;
}

/* The link to the highest node that may remember this one as its largest: those above it remember a larger one. */
static struct sim_range **concerned(struct sim_ranges *t, const struct sim_range *node)
{
    struct sim_range **link = &t->root;
    while (*link && *link != node && (*link)->largest > node->size) link = side_of(*link, node->start);
    return link;
}

void sim_range_remove(struct sim_ranges *t, struct sim_range *node)
{
    struct sim_range **link = concerned(t, node);
    *link = removed(*link, node);
}

static void update_down_to(struct sim_range *n, struct sim_range *node, uint64_t place)
{
    if (n != node) update_down_to(*side_of(n, place), node, place);
    update(n);
}

void sim_range_resize(struct sim_ranges *t, struct sim_range *node, uint64_t start, uint64_t size)
{
    uint64_t place = node->start;
    struct sim_range *n = size < node->size ? *concerned(t, node) : t->root;
    if (size >= node->size)
        for (; n != node; n = *side_of(n, place))
            if (n->largest < size) n->largest = size;
    node->start = start;
    node->size = size;
    update_down_to(n, node, place);
}

struct sim_range *sim_range_floor(const struct sim_ranges *t, uint64_t address)
{
    struct sim_range *best = NULL;
    for (struct sim_range *n = t->root; n;) {
        if (n->start > address) {
            n = n->left;
        } else {
            best = n;
            n = n->right;
        }
    }
    return best;
}

struct sim_range *sim_range_ceiling(const struct sim_ranges *t, uint64_t address)
{
    struct sim_range *best = NULL;
    for (struct sim_range *n = t->root; n;) {
        if (n->start < address) {
            n = n->right;
        } else {
            best = n;
            n = n->left;
        }
    }
    return best;
}

struct sim_range *sim_range_containing(const struct sim_ranges *t, uint64_t address)
{
    struct sim_range *n = sim_range_floor(t, address);
    return n && address - n->start < n->size ? n : NULL;
}

struct sim_range *sim_range_first_fit(const struct sim_ranges *t, uint64_t size)
{
    struct sim_range *n = t->root;
    if (!n || n->largest < size) return NULL;
    for (;;) {
        if (n->left && n->left->largest >= size) n = n->left;
        else if (n->size >= size) return n;
        else n = n->right;
    }
}
