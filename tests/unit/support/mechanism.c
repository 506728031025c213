#include "mechanism.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct mechanism mechanism;

static const NxmemDeviceId host_0 = { NXMEM_TIER_HOST, 0 };

static void note_completion(void *owner, const struct nxm_block *block, const struct nxm_release *release)
{
    struct mechanism *m = owner;

    pthread_mutex_lock(&m->lock);
    if (m->completions < TOLD_MAX) {
        m->completed[m->completions] = *block;
        m->outcomes[m->completions] = *release;
    }
    m->completions++;
    pthread_mutex_unlock(&m->lock);
}

static int64_t reclaim(void *owner, struct nxm_allocator *allocator, NxmemDeviceId device, uint64_t bytes)
{
    struct mechanism *m = owner;

    (void)allocator;
    assert_int_equal(device.tier, NXMEM_TIER_HOST);
    m->reclaim_asked = bytes;
    m->reclaim_tallies = gate_now().host;
    return m->reclaim_answer;
}

static int setup(const char *path, const NxmemVersionRange *range)
{
    struct nxm_error error;

    memset(&mechanism, 0, sizeof mechanism);
    pthread_mutex_init(&mechanism.lock, NULL);
    if (nxm_module_load(path, range, &mechanism.module, &error) != NXM_OK) {
        print_error("%s\n", error.text);
        return -1;
    }
    if (nxm_blocks_new(&mechanism.blocks) != NXM_OK)
        return -1;
    mechanism.options.blocks = mechanism.blocks;
    mechanism.options.owner = &mechanism;
    mechanism.options.completed = note_completion;
    return 0;
}

int mechanism_setup(void **state)
{
    (void)state;
    return setup(TESTPLUGIN_PATH, NULL);
}

int mechanism_setup_faulty(void **state)
{
    (void)state;
    return setup(FAULTY_HOST_PATH, NULL);
}

int mechanism_setup_minor_0(void **state)
{
    const NxmemVersionRange range = { 1, 1, 0, 0 };

    (void)state;
    return setup(TESTPLUGIN_PATH, &range);
}

int mechanism_teardown(void **state)
{
    struct nxm_module_counters before = counters_now();
    struct nxm_gate gate = { 0 };

    (void)state;
    mechanism_drop();
    if (mechanism.module != NULL) {
        assert_int_equal(nxm_module_unload(mechanism.module, &gate), NXM_OK);
        assert_int_equal(counters_now().modules_unmapped, before.modules_unmapped + 1);
    }
    assert_int_equal(counters_now().leaked_callback_tables, 0);
    assert_int_equal(counters_now().forced_module_leaks, 0);
    nxm_blocks_free(mechanism.blocks);
    return 0;
}

int mechanism_teardown_poisoned(void **state)
{
    (void)state;
    nxm_blocks_free(mechanism.blocks);
    return 0;
}

static int try_open(const char *name, struct nxm_allocator **ret_allocator, struct nxm_error *ret_error)
{
    size_t index;
    int result = nxm_module_find_mechanism(mechanism.module, name, host_0, &index, ret_error);

    return result != NXM_OK
               ? result
               : nxm_allocator_open(mechanism.module, index, &mechanism.options, ret_allocator, ret_error);
}

int mechanism_try_open(const char *name, struct nxm_error *ret_error)
{
    return try_open(name, &mechanism.allocator, ret_error);
}

struct nxm_allocator *mechanism_open_beside(const char *name)
{
    struct nxm_allocator *allocator = NULL;
    struct nxm_error error;

    if (try_open(name, &allocator, &error) != NXM_OK)
        fail_msg("%s", error.text);
    return allocator;
}

void mechanism_open(const char *name)
{
    mechanism.allocator = mechanism_open_beside(name);
}

void mechanism_drop(void)
{
    nxm_allocator_unref(mechanism.allocator);
    mechanism.allocator = NULL;
}

void mechanism_give_reclaim(int64_t answer)
{
    mechanism.options.reclaim = reclaim;
    mechanism.reclaim_answer = answer;
}

struct nxm_block allocate_from(struct nxm_allocator *allocator, uint64_t bytes)
{
    struct nxm_block block = { .bytes = bytes, .align = 256, .class_ = NXM_CLASS_DEVICE, .device = 0 };
    struct nxm_error error;

    if (nxm_allocator_allocate(allocator, &block, NULL, NULL, &error) != NXM_OK)
        fail_msg("%s", error.text);
    return block;
}

struct nxm_block mechanism_allocate(uint64_t bytes)
{
    return allocate_from(mechanism.allocator, bytes);
}

struct nxm_release mechanism_release(const struct nxm_block *block)
{
    struct nxm_release release;
    struct nxm_error error;

    if (nxm_allocator_release(mechanism.allocator, block->address, block->id, NXM_BLOCK_LIVE, &release, &error) != NXM_OK)
        fail_msg("%s", error.text);
    return release;
}

struct nxm_release mechanism_enqueue(const struct nxm_block *block)
{
    struct nxm_release release;
    struct nxm_error error;

    if (nxm_allocator_enqueue(mechanism.allocator, block->address, block->id, NXM_BLOCK_LIVE, NULL, NULL, &release,
                              &error) != NXM_OK)
        fail_msg("%s", error.text);
    return release;
}

static uint64_t ask(const char *prefix, const char *name)
{
    uint64_t (*function)(void);
    char symbol[80];
    void *found;

    snprintf(symbol, sizeof symbol, "%s%s", prefix, name);
    found = nxm_module_symbol(mechanism.module, symbol);
    assert_non_null(found);
    memcpy(&function, &found, sizeof function);
    return function();
}

uint64_t testplugin_ask(const char *name)
{
    return ask("NxmemTestplugin", name);
}

uint64_t faulty_host_ask(const char *name)
{
    return ask("NxmemFaultyHost", name);
}

struct nxm_gate gate_now(void)
{
    struct nxm_gate gate;

    nxm_module_query_gate(mechanism.module, &gate);
    return gate;
}

struct nxm_module_counters counters_now(void)
{
    struct nxm_module_counters counters;

    nxm_module_counters(&counters);
    return counters;
}

void assert_host_tallies(uint64_t allocators, uint64_t allocations, uint64_t queued)
{
    struct nxm_tallies tallies = gate_now().host;

    assert_int_equal(tallies.allocators, allocators);
    assert_int_equal(tallies.allocations, allocations);
    assert_int_equal(tallies.queued, queued);
}
