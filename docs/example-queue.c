/* A free list over a plugin with deferred release: blocks that are done with are kept for the next one of their size; what is too
 * much is queued, and the plugin ends it when there is time, or when memory runs short.
 *
 *     cc example-queue.c $(pkg-config --cflags --libs nxmem-host)
 */
#include <nxmem_host.h>

#include <stdio.h>

enum { KEPT = 4, ROUNDS = 100, A_FEW = 2 };

static struct {
    nxmem_host_allocator *allocator;
    nxmem_host_block kept[KEPT]; /* the free list: live blocks that nobody uses */
    unsigned count, reused, retired;
} pool;

/* On any thread, inside enqueue too: it counts, and calls nothing of the library's. (One thread here; else an atomic.) */
static void completed(void *owner, const nxmem_host_block *block, const nxmem_host_release_result *result)
{
    (void)owner;
    if (result->outcome == NXMEM_HOST_QUARANTINED)
        fprintf(stderr, "%llu bytes at %p are lost\n", (unsigned long long)result->retained, block->address);
    pool.retired++;
}

static int take(uint64_t bytes, nxmem_host_block *ret_block, nxmem_host_error *error)
{
    int result;

    for (unsigned i = 0; i < pool.count; i++) {
        if (pool.kept[i].bytes != bytes)
            continue;
        *ret_block = pool.kept[i];
        pool.kept[i] = pool.kept[--pool.count];
        pool.reused++;
        return NXMEM_HOST_OK;
    }
    *ret_block = NXMEM_HOST_SIZED(nxmem_host_block);
    result = nxmem_host_allocate(pool.allocator, bytes, 512, ret_block, error);
    if (result == NXMEM_HOST_MEMORY) { /* what is queued is memory still: now it is wanted back */
        nxmem_host_drain(pool.allocator, UINT64_MAX, NULL, NULL);
        result = nxmem_host_allocate(pool.allocator, bytes, 512, ret_block, error);
    }
    return result;
}

/* Queued, and where the plugin cannot queue, or its queue is full (BUSY): at once. A failure leaves the block live. */
static int retire(const nxmem_host_block *block, nxmem_host_error *error)
{
    int result = nxmem_host_enqueue(pool.allocator, block->address, block->bytes, block->align, NULL, error);

    if (result == NXMEM_HOST_UNSUPPORTED || (result == NXMEM_HOST_CALL && error->status == NXMEM_STATUS_BUSY))
        result = nxmem_host_release(pool.allocator, block->address, block->bytes, block->align, NULL, error);
    return result;
}

static int give(const nxmem_host_block *block, nxmem_host_error *error)
{
    if (pool.count == KEPT)
        return retire(block, error);
    pool.kept[pool.count++] = *block;
    return NXMEM_HOST_OK;
}

static int run(nxmem_host_error *error)
{
    int result = NXMEM_HOST_OK;

    for (unsigned round = 0; round < ROUNDS && result == NXMEM_HOST_OK; round++) {
        nxmem_host_block block = NXMEM_HOST_SIZED(nxmem_host_block);

        result = take(4096 * (1 + round % (KEPT + 2)), &block, error);
        if (result == NXMEM_HOST_OK)
            result = give(&block, error);
        if (result == NXMEM_HOST_OK) /* between two pieces of work: a few, so that none of them waits long */
            result = nxmem_host_drain(pool.allocator, A_FEW, NULL, error);
    }
    while (pool.count > 0 && result == NXMEM_HOST_OK)
        result = retire(&pool.kept[--pool.count], error);
    return result == NXMEM_HOST_OK ? nxmem_host_drain(pool.allocator, UINT64_MAX, NULL, error) : result;
}

int main(int argc, char **argv)
{
    nxmem_host_error error = NXMEM_HOST_SIZED(nxmem_host_error);
    nxmem_host_options options = NXMEM_HOST_SIZED(nxmem_host_options);
    nxmem_host_plugin *plugin;
    int result = nxmem_host_load(argc > 1 ? argv[1] : "host.so", NULL, &plugin, &error);

    options.completed = completed;
    if (result == NXMEM_HOST_OK) {
        result = nxmem_host_open(plugin, 0, &options, &pool.allocator, &error);
        if (result == NXMEM_HOST_OK) {
            result = run(&error);
            nxmem_host_close(pool.allocator); /* drains what is queued still, within bounds */
        }
        if (result == NXMEM_HOST_OK)
            result = nxmem_host_unload(&plugin, NULL, &error);
        else
            nxmem_host_drop(plugin);
    }
    if (result != NXMEM_HOST_OK)
        fprintf(stderr, "%s: %s\n", nxmem_host_class_name(error.code), error.text);
    else
        printf("%u rounds, %u of them from the free list, %u blocks retired\n", (unsigned)ROUNDS, pool.reused, pool.retired);
    return result != NXMEM_HOST_OK;
}
