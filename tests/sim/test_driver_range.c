/* The ordered ranges behind every address map, against a plain list of them. */
#include "driver_fixture.h"

#include "driver/range.c"

#include <string.h>

enum { PLACES = 200, STEPS = 20000, STRIDE = 1000 };

static struct sim_ranges tree;
static struct sim_range nodes[PLACES];
static int there[PLACES];

static uint32_t draw(uint32_t below)
{
    static uint32_t seed = 7;
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

static int empty_tree(void **state)
{
    (void)state;
    tree.root = NULL;
    memset(there, 0, sizeof there);
    return 0;
}

/* One that starts anywhere in its place and ends within it, so that the order of places is the order of ranges. */
static void draw_extent(int place, uint64_t *ret_start, uint64_t *ret_size)
{
    uint64_t lead = draw(STRIDE / 2);
    *ret_start = (uint64_t)(place + 1) * STRIDE + lead;
    *ret_size = 1 + draw((uint32_t)(STRIDE - lead));
}

static void change(int place)
{
    uint64_t start, size;
    draw_extent(place, &start, &size);
    if (!there[place]) {
        nodes[place] = (struct sim_range){ .start = start, .size = size };
        sim_range_insert(&tree, &nodes[place]);
        there[place] = 1;
    } else if (draw(2)) {
        sim_range_resize(&tree, &nodes[place], start, size);
    } else {
        sim_range_remove(&tree, &nodes[place]);
        there[place] = 0;
    }
}

static struct sim_range *fits(uint64_t size)
{
    for (int i = 0; i < PLACES; i++)
        if (there[i] && nodes[i].size >= size) return &nodes[i];
    return NULL;
}

static struct sim_range *contains(uint64_t address)
{
    for (int i = 0; i < PLACES; i++)
        if (there[i] && address - nodes[i].start < nodes[i].size) return &nodes[i];
    return NULL;
}

static struct sim_range *from(uint64_t address)
{
    for (int i = 0; i < PLACES; i++)
        if (there[i] && nodes[i].start >= address) return &nodes[i];
    return NULL;
}

static void ranges_that_come_go_and_change_are_found_like_in_a_list(void **state)
{
    (void)state;
    for (int step = 0; step < STEPS; step++) {
        uint64_t address = draw((PLACES + 2) * STRIDE), size = 1 + draw(STRIDE + 10);
        change((int)draw(PLACES));
        assert_ptr_equal(sim_range_first_fit(&tree, size), fits(size));
        assert_ptr_equal(sim_range_containing(&tree, address), contains(address));
        assert_ptr_equal(sim_range_ceiling(&tree, address), from(address));
    }
    for (int i = 0; i < PLACES; i++)
        if (there[i]) sim_range_remove(&tree, &nodes[i]);
    assert_null(tree.root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(ranges_that_come_go_and_change_are_found_like_in_a_list, empty_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
