#include "plugins/common/live.h"

#include <string.h>
#include <sys/mman.h>

enum {
    CHUNK_BYTES = 32 * 1024,
    FIRST_BUCKETS = 512,
};

struct nxp_chunk {
    struct nxp_chunk *next;
    struct nxp_block blocks[];
};

void *nxp_pages_map(size_t bytes)
{
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return pages == MAP_FAILED ? NULL : pages;
}

void nxp_pages_unmap(void *pages, size_t bytes)
{
    if (pages != NULL)
        munmap(pages, bytes);
}

/* Ids come one after another; the multiplier spreads those of one allocator among many. */
static size_t bucket_of(const struct nxp_live *live, uint64_t id)
{
    return (size_t)((id * UINT64_C(0x9E3779B97F4A7C15)) >> 20) & (live->bucket_count - 1);
}

static int grow_buckets(struct nxp_live *live)
{
    struct nxp_live grown = *live;

    grown.bucket_count = live->bucket_count != 0 ? live->bucket_count * 2 : FIRST_BUCKETS;
    grown.buckets = nxp_pages_map(grown.bucket_count * sizeof *grown.buckets);
    if (grown.buckets == NULL)
        return -1;
    for (size_t i = 0; i < live->bucket_count; i++) {
        struct nxp_block *block = live->buckets[i];

        while (block != NULL) {
            struct nxp_block *following = block->chain;
            struct nxp_block **head = &grown.buckets[bucket_of(&grown, block->id)];

            block->chain = *head;
            *head = block;
            block = following;
        }
    }
    nxp_pages_unmap(live->buckets, live->bucket_count * sizeof *live->buckets);
    *live = grown;
    return 0;
}

static int grow_spare(struct nxp_live *live)
{
    struct nxp_chunk *chunk = nxp_pages_map(CHUNK_BYTES);
    size_t count = (CHUNK_BYTES - sizeof *chunk) / sizeof chunk->blocks[0];

    if (chunk == NULL)
        return -1;
    chunk->next = live->chunks;
    live->chunks = chunk;
    for (size_t i = 0; i < count; i++) {
        chunk->blocks[i].chain = live->spare;
        live->spare = &chunk->blocks[i];
    }
    return 0;
}

struct nxp_block *nxp_live_find(const struct nxp_live *live, uint64_t id)
{
    struct nxp_block *block = NULL;

    if (live->bucket_count != 0)
        block = live->buckets[bucket_of(live, id)];
    while (block != NULL && block->id != id)
        block = block->chain;
    return block;
}

struct nxp_block *nxp_live_add(struct nxp_live *live, uint64_t id, int *ret_exists)
{
    struct nxp_block *block, **head;

    *ret_exists = nxp_live_find(live, id) != NULL;
    if (*ret_exists)
        return NULL;
    /* Longer chains than planned still work: only the very first table is a must. */
    if (live->count >= live->bucket_count && grow_buckets(live) != 0 && live->bucket_count == 0)
        return NULL;
    if (live->spare == NULL && grow_spare(live) != 0)
        return NULL;
    block = live->spare;
    live->spare = block->chain;
    memset(block, 0, sizeof *block);
    block->id = id;
    block->state = NXP_ALLOCATING;
    head = &live->buckets[bucket_of(live, id)];
    block->chain = *head;
    *head = block;
    live->count++;
    return block;
}

void nxp_live_remove(struct nxp_live *live, struct nxp_block *block)
{
    struct nxp_block **link = &live->buckets[bucket_of(live, block->id)];

    while (*link != block)
        link = &(*link)->chain;
    *link = block->chain;
    block->chain = live->spare;
    live->spare = block;
    live->count--;
}

void nxp_live_clear(struct nxp_live *live)
{
    while (live->chunks != NULL) {
        struct nxp_chunk *chunk = live->chunks;

        live->chunks = chunk->next;
        nxp_pages_unmap(chunk, CHUNK_BYTES);
    }
    nxp_pages_unmap(live->buckets, live->bucket_count * sizeof *live->buckets);
    memset(live, 0, sizeof *live);
}
