#include "leaks.h"

#include <string.h>

#include "mem.h"

#define FIRST_CAPACITY 1024u

struct walk {
    struct nxm_leaks *leaks;
    const struct nxm_suppressions *suppressions;
    uint32_t leak_classes; /* a bit for each */
    bool out_of_memory;
};

_Static_assert(NXM_CLASS_COUNT <= 32, "a bit for each class");

static void add(struct nxm_amount *amount, uint64_t blocks, uint64_t bytes)
{
    amount->blocks += blocks;
    amount->bytes += bytes;
}

static bool stack_is_suppressed(const struct nxm_suppressions *suppressions, uint32_t stack)
{
    struct nxm_frame frames[NXM_STACK_DEPTH_MAX];

    return suppressions != NULL &&
           nxm_suppressions_match(suppressions, frames, nxm_stack_frames(stack, frames, NXM_STACK_DEPTH_MAX));
}

/* --- groups: open addressing by key while the walk runs, then packed and sorted ---------------------------- */

struct key {
    uint64_t where; /* stack and device */
    uint64_t what;  /* API and class */
};

static inline struct key key_of(uint32_t stack, int32_t device, uint16_t api, uint8_t class_)
{
    return (struct key){ .where = (uint64_t)(uint32_t)device << 32 | stack, .what = (uint64_t)class_ << 16 | api };
}

static inline bool has_key(const struct nxm_leak_group *group, struct key key)
{
    struct key its = key_of(group->stack, group->device, group->api, group->class_);

    return ((its.where ^ key.where) | (its.what ^ key.what)) == 0; /* in one: it is asked once a block and true nearly always */
}

/* Stacks are numbered one by one: the upper bits of such products lie far apart, so that groups seldom meet. */
static inline size_t hash(struct key key, size_t capacity)
{
    return (size_t)((key.where ^ key.what << 40) * UINT64_C(0x9E3779B97F4A7C15) >> (64 - __builtin_ctzll(capacity)));
}

/* The key's group, or the empty place where it belongs. */
static inline struct nxm_leak_group *place_of(struct nxm_leak_group *groups, size_t capacity, struct key key)
{
    size_t at = hash(key, capacity);

    while (groups[at].amount.blocks != 0 && !has_key(&groups[at], key))
        at = (at + 1) & (capacity - 1);
    return &groups[at];
}

static bool grow(struct nxm_leaks *leaks)
{
    size_t capacity = leaks->capacity == 0 ? FIRST_CAPACITY : leaks->capacity * 2;
    struct nxm_leak_group *groups = nxm_mem_map(capacity * sizeof *groups);

    if (groups == NULL)
        return false;
    for (size_t i = 0; i < leaks->capacity; i++) {
        const struct nxm_leak_group *group = &leaks->groups[i];

        if (group->amount.blocks != 0)
            *place_of(groups, capacity, key_of(group->stack, group->device, group->api, group->class_)) = *group;
    }
    nxm_mem_unmap(leaks->groups, leaks->capacity * sizeof *groups);
    leaks->groups = groups;
    leaks->capacity = capacity;
    return true;
}

/* A group for its first block. A quarter of the places stays empty. */
static __attribute__((noinline)) bool add_group(struct nxm_leaks *leaks, const struct nxm_block *block)
{
    if (leaks->group_count >= leaks->capacity / 4 * 3 && !grow(leaks))
        return false;
    *place_of(leaks->groups, leaks->capacity, key_of(block->stack, block->device, block->api, block->class_)) =
        (struct nxm_leak_group){ .stack = block->stack, .device = block->device, .api = block->api, .class_ = block->class_,
                                 .first_id = block->id, .amount = { 1, block->bytes } };
    leaks->group_count++;
    return true;
}

static inline bool group_block(struct nxm_leaks *leaks, const struct nxm_block *block)
{
    struct key key = key_of(block->stack, block->device, block->api, block->class_);
    struct nxm_leak_group *group = leaks->capacity == 0 ? NULL : place_of(leaks->groups, leaks->capacity, key);

    if (group == NULL || group->amount.blocks == 0)
        return add_group(leaks, block);
    if (block->id < group->first_id)
        group->first_id = block->id;
    add(&group->amount, 1, block->bytes);
    return true;
}

static void pack(struct nxm_leaks *leaks)
{
    size_t to = 0;

    for (size_t from = 0; from < leaks->capacity; from++) {
        if (leaks->groups[from].amount.blocks != 0)
            leaks->groups[to++] = leaks->groups[from];
    }
}

/* A total order: no two groups have the same first block. */
static bool comes_before(const struct nxm_leak_group *a, const struct nxm_leak_group *b)
{
    if (a->suppressed != b->suppressed)
        return b->suppressed;
    if (a->amount.bytes != b->amount.bytes)
        return a->amount.bytes > b->amount.bytes;
    if (a->amount.blocks != b->amount.blocks)
        return a->amount.blocks > b->amount.blocks;
    return a->first_id < b->first_id;
}

static void exchange(struct nxm_leak_group *a, struct nxm_leak_group *b)
{
    struct nxm_leak_group t = *a;

    *a = *b;
    *b = t;
}

static void sift_down(struct nxm_leak_group *groups, size_t at, size_t count)
{
    for (size_t child = 2 * at + 1; child < count; at = child, child = 2 * at + 1) {
        if (child + 1 < count && comes_before(&groups[child], &groups[child + 1]))
            child++;
        if (!comes_before(&groups[at], &groups[child]))
            return;
        exchange(&groups[at], &groups[child]);
    }
}

/* Heapsort: qsort may ask malloc for memory. */
static void sort(struct nxm_leak_group *groups, size_t count)
{
    for (size_t at = count / 2; at-- > 0;)
        sift_down(groups, at, count);
    for (size_t left = count; left > 1; left--) {
        exchange(&groups[0], &groups[left - 1]);
        sift_down(groups, 0, left - 1);
    }
}

static void sum_groups(struct walk *walk)
{
    struct nxm_leaks *leaks = walk->leaks;

    for (size_t i = 0; i < leaks->group_count; i++) {
        struct nxm_leak_group *group = &leaks->groups[i];

        group->suppressed = stack_is_suppressed(walk->suppressions, group->stack);
        add(group->suppressed ? &leaks->suppressed : &leaks->leaked, group->amount.blocks, group->amount.bytes);
        leaks->places += !group->suppressed;
    }
}

/* --- the walk ------------------------------------------------------------------------------------------- */

static __attribute__((noinline)) void add_ungrouped(struct walk *walk, const struct nxm_block *block)
{
    struct nxm_leaks *leaks = walk->leaks;

    add(stack_is_suppressed(walk->suppressions, block->stack) ? &leaks->suppressed : &leaks->leaked, 1, block->bytes);
}

static bool visit(void *argument, const struct nxm_block *block)
{
    struct walk *walk = argument;
    struct nxm_leaks *leaks = walk->leaks;

    leaks->classes[block->class_].live_blocks++;
    leaks->classes[block->class_].live_bytes += block->bytes;
    if (block->state != NXM_BLOCK_LIVE)
        add(&leaks->waiting, 1, block->bytes);
    else if ((walk->leak_classes >> block->class_ & 1) == 0)
        return true;
    else if (!leaks->grouped)
        add_ungrouped(walk, block);
    else
        walk->out_of_memory = !group_block(leaks, block);
    return !walk->out_of_memory;
}

/* The tables' own sums, taken after the walk, so that no peak is below what was walked. */
static void add_history(struct nxm_leaks *leaks, struct nxm_blocks *table)
{
    for (int i = 0; i < NXM_CLASS_COUNT; i++) {
        struct nxm_class_totals totals;

        nxm_blocks_totals(table, (enum nxm_class)i, &totals);
        leaks->classes[i].peak_bytes += totals.peak_bytes;
        leaks->classes[i].ever_blocks += totals.ever_blocks;
        leaks->classes[i].ever_bytes += totals.ever_bytes;
    }
}

static bool walk_tables(struct walk *walk, struct nxm_blocks *const *tables, size_t table_count)
{
    for (size_t i = 0; i < table_count && !walk->out_of_memory; i++)
        nxm_blocks_each(tables[i], visit, walk);
    return !walk->out_of_memory;
}

void nxm_leaks_init(struct nxm_leaks *leaks, struct nxm_blocks *const *tables, size_t table_count,
                    const struct nxm_suppressions *suppressions)
{
    struct walk walk = { .leaks = leaks, .suppressions = suppressions };

    for (int i = 0; i < NXM_CLASS_COUNT; i++)
        walk.leak_classes |= (uint32_t)nxm_class_is_leak((enum nxm_class)i) << i;
    memset(leaks, 0, sizeof *leaks);
    leaks->grouped = true;
    if (walk_tables(&walk, tables, table_count)) {
        pack(leaks);
        sum_groups(&walk);
        sort(leaks->groups, leaks->group_count);
    } else { /* once more, from the start: a half-grouped report would say two things */
        nxm_leaks_clear(leaks);
        walk.out_of_memory = false;
        walk_tables(&walk, tables, table_count);
    }
    for (size_t i = 0; i < table_count; i++)
        add_history(leaks, tables[i]);
}

void nxm_leaks_clear(struct nxm_leaks *leaks)
{
    nxm_mem_unmap(leaks->groups, leaks->capacity * sizeof *leaks->groups);
    memset(leaks, 0, sizeof *leaks);
}
