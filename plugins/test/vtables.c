/* Vtables that are not what they should be, and the pointer to the one published last. */
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "plugins/test/testplugin.h"

enum {
    SHORT_BYTES = 60,
    POISON = 0xAB,
    UNKNOWN_TIER = 4242,
};

/* --- short-struct: one heap block for all openings, which ends where its claim ends ----------------------------- */

static void *_Atomic short_block;

__attribute__((destructor)) static void free_short_block(void)
{
    free(atomic_load(&short_block));
}

const NxmemAllocatorVtable *test_short_vtable(void)
{
    void *found = atomic_load(&short_block), *made;

    if (found != NULL)
        return found;
    made = calloc(1, SHORT_BYTES);
    if (made == NULL)
        return NULL;
    memcpy(made, &(uint32_t){SHORT_BYTES}, sizeof(uint32_t));
    if (atomic_compare_exchange_strong(&short_block, &found, made))
        return made;
    free(made);
    return found;
}

/* --- vtables of real states -------------------------------------------------------------------------------------- */

/* Its last slot lies behind what it claims, and is no address of anything. */
const NxmemAllocatorVtable *test_publish_poisoned(struct test_state *state)
{
    void *block = malloc(sizeof(NxmemAllocatorVtable));

    if (block == NULL)
        return NULL;
    memset(block, POISON, sizeof(NxmemAllocatorVtable));
    memcpy(block, &state->lazy.base.vtable, offsetof(NxmemAllocatorVtable, release_allocation));
    state->block = block;
    return block;
}

const NxmemAllocatorVtable *test_publish_without_allocate(struct test_state *state)
{
    state->lazy.base.vtable.allocate = NULL;
    return &state->lazy.base.vtable;
}

const NxmemAllocatorVtable *test_publish_bad_tier(struct test_state *state)
{
    state->lazy.base.vtable.device.tier = UNKNOWN_TIER;
    return &state->lazy.base.vtable;
}

/* A reference that nobody gives back. */
const NxmemAllocatorVtable *test_publish_retained(struct test_state *state)
{
    nxp_allocator_ref(&state->lazy.base);
    return &state->lazy.base.vtable;
}

/* --- the one published last ---------------------------------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the two below; nothing is called under it */
static const struct test_state *published_by;
static const NxmemAllocatorVtable *published;

void test_published_set(const struct test_state *state, const NxmemAllocatorVtable *vtable)
{
    pthread_mutex_lock(&lock);
    published_by = state;
    published = vtable;
    pthread_mutex_unlock(&lock);
}

void test_published_forget(const struct test_state *state)
{
    pthread_mutex_lock(&lock);
    if (published_by == state) {
        published_by = NULL;
        published = NULL;
    }
    pthread_mutex_unlock(&lock);
}

uint64_t NxmemTestpluginPublishedStructuredSlot(void)
{
    uint64_t answer = UINT64_MAX;

    pthread_mutex_lock(&lock);
    if (published != NULL)
        answer = published->struct_size >= sizeof *published && published->release_allocation != NULL;
    pthread_mutex_unlock(&lock);
    return answer;
}
