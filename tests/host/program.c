/* A program that knows nxmem_host.h and nothing else of this project: compiled as C99 and as C++11, against the static and the shared
 * library. Takes the path of a plugin whose first mechanism is ordinary memory with deferred release. */
#include <nxmem_host.h>

#include <stdio.h>
#include <string.h>

static int failures;

#define CHECK(condition)                                                       \
    do {                                                                       \
        if (!(condition)) {                                                    \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            failures++;                                                        \
        }                                                                      \
    } while (0)

static int completions, ends;

static void completed(void *owner, const nxmem_host_block *block, const nxmem_host_release_result *result)
{
    CHECK(owner == &completions);
    CHECK(block->bytes == 4096);
    CHECK(result->outcome == NXMEM_HOST_COMPLETE);
    completions++;
}

static void ended(void *owner)
{
    CHECK(owner == &completions);
    ends++;
}

static nxmem_host_block allocate(nxmem_host_allocator *allocator, uint64_t bytes, uint64_t align)
{
    nxmem_host_block block = NXMEM_HOST_SIZED(nxmem_host_block);
    nxmem_host_error error = NXMEM_HOST_SIZED(nxmem_host_error);

    if (nxmem_host_allocate(allocator, bytes, align, &block, &error) != NXMEM_HOST_OK) {
        fprintf(stderr, "%s\n", error.text);
        failures++;
    }
    return block;
}

static void mechanisms(const nxmem_host_plugin *plugin)
{
    nxmem_host_mechanism mechanism = NXMEM_HOST_SIZED(nxmem_host_mechanism);
    nxmem_host_error error = NXMEM_HOST_SIZED(nxmem_host_error);
    NxmemDeviceId disk = { NXMEM_TIER_DISK, 77 };
    size_t found = 99;

    CHECK(nxmem_host_mechanism_count(plugin) >= 1);
    CHECK(nxmem_host_mechanism_at(plugin, 0, &mechanism) == NXMEM_HOST_OK);
    CHECK(mechanism.device.tier == NXMEM_TIER_HOST);
    CHECK((mechanism.capabilities & NXMEM_CAPABILITY_DEFERRED_RELEASE) != 0);
    CHECK(nxmem_host_find(plugin, mechanism.name, NULL, &found, &error) == NXMEM_HOST_OK && found == 0);
    CHECK(nxmem_host_find(plugin, mechanism.name, &mechanism.device, &found, NULL) == NXMEM_HOST_OK && found == 0);
    CHECK(nxmem_host_find(plugin, NULL, &disk, &found, &error) == NXMEM_HOST_NO_MECHANISM);
    CHECK(error.code == NXMEM_HOST_NO_MECHANISM && strstr(error.text, mechanism.name) != NULL);
    CHECK(nxmem_host_mechanism_at(plugin, 1000, &mechanism) == NXMEM_HOST_ARGUMENT);
}

static void blocks(nxmem_host_allocator *allocator)
{
    nxmem_host_block block = allocate(allocator, 8192, 512);
    nxmem_host_release_result result = NXMEM_HOST_SIZED(nxmem_host_release_result);
    nxmem_host_statistics statistics = NXMEM_HOST_SIZED(nxmem_host_statistics);

    CHECK(block.address != NULL && (uintptr_t)block.address % 512 == 0 && block.bytes == 8192 && block.align == 512);
    memset(block.address, 1, 8192);
    nxmem_host_statistics_of(allocator, &statistics);
    CHECK(statistics.live_blocks == 1 && statistics.live_bytes == 8192 && statistics.owned_bytes == block.owned);
    CHECK(nxmem_host_release(allocator, block.address, 8192, 256, &result, NULL) == NXMEM_HOST_ARGUMENT);
    CHECK(result.outcome == NXMEM_HOST_FAILED);
    CHECK(nxmem_host_release(allocator, block.address, 8192, 512, &result, NULL) == NXMEM_HOST_OK);
    CHECK(result.outcome == NXMEM_HOST_COMPLETE && result.unmapped <= 8192);
    CHECK(nxmem_host_release(allocator, block.address, 8192, 512, NULL, NULL) == NXMEM_HOST_UNKNOWN);
    CHECK(nxmem_host_allocate(allocator, 64, 48, &block, NULL) == NXMEM_HOST_ARGUMENT);
}

static void queue(nxmem_host_allocator *allocator, nxmem_host_provider *provider)
{
    nxmem_host_block first = allocate(allocator, 4096, 64), second = allocate(allocator, 4096, 64);
    nxmem_host_release_result result = NXMEM_HOST_SIZED(nxmem_host_release_result);
    nxmem_host_error error = NXMEM_HOST_SIZED(nxmem_host_error);
    uint64_t retired = 0;

    CHECK(nxmem_host_enqueue(allocator, first.address, 4096, 64, &result, &error) == NXMEM_HOST_OK);
    CHECK(result.outcome == NXMEM_HOST_QUEUED && result.ticket != 0);
    CHECK(nxmem_host_pending(allocator) == 1 && nxmem_host_provider_pins(provider) == 1 && completions == 0);
    CHECK(nxmem_host_drain(allocator, UINT64_MAX, &retired, &error) == NXMEM_HOST_OK && retired == 1);
    CHECK(nxmem_host_pending(allocator) == 0 && nxmem_host_provider_pins(provider) == 0 && completions == 1);
    nxmem_host_provider_wait(provider);
    CHECK(nxmem_host_enqueue(allocator, second.address, 4096, 64, &result, &error) == NXMEM_HOST_RETIRED);
    CHECK(error.code == NXMEM_HOST_RETIRED && strcmp(nxmem_host_class_name(error.code), "retired") == 0);
    CHECK(nxmem_host_release(allocator, second.address, 4096, 64, NULL, NULL) == NXMEM_HOST_OK);
}

/* The same in every language and for every compiler: what was compiled once goes on working. */
static void sizes(void)
{
    CHECK(sizeof(nxmem_host_error) == 464 && offsetof(nxmem_host_error, text) == 80);
    CHECK(sizeof(nxmem_host_mechanism) == 32 && offsetof(nxmem_host_mechanism, name) == 24);
    CHECK(sizeof(nxmem_host_block) == 56 && offsetof(nxmem_host_block, mapped) == 48);
    CHECK(sizeof(nxmem_host_release_result) == 40 && offsetof(nxmem_host_release_result, status) == 32);
    CHECK(sizeof(nxmem_host_options) == 80 && offsetof(nxmem_host_options, pin_context) == 72);
    CHECK(sizeof(nxmem_host_statistics) == 128 && offsetof(nxmem_host_statistics, reclaim_failures) == 120);
    CHECK(sizeof(nxmem_host_prefix_facts) == 40 && offsetof(nxmem_host_prefix_facts, mapped_bytes) == 32);
    CHECK(sizeof(nxmem_host_view) == 32 && offsetof(nxmem_host_view, granules) == 24);
    CHECK(sizeof(nxmem_host_gate) == 88 && offsetof(nxmem_host_gate, plugin_queued) == 80);
    CHECK(sizeof(nxmem_host_counters) == 40 && offsetof(nxmem_host_counters, reclaimed_tables) == 32);
}

int main(int argc, char **argv)
{
    nxmem_host_options options = NXMEM_HOST_SIZED(nxmem_host_options);
    nxmem_host_counters counters = NXMEM_HOST_SIZED(nxmem_host_counters);
    nxmem_host_error error = NXMEM_HOST_SIZED(nxmem_host_error);
    nxmem_host_gate gate = NXMEM_HOST_SIZED(nxmem_host_gate);
    nxmem_host_allocator *allocator = NULL;
    nxmem_host_provider *provider = NULL;
    nxmem_host_plugin *plugin = NULL;

    if (argc != 2)
        return 2;
    sizes();
    CHECK(nxmem_host_load("/no/such/plugin.so", NULL, &plugin, &error) == NXMEM_HOST_CANNOT_OPEN && plugin == NULL);
    if (nxmem_host_load(argv[1], NULL, &plugin, &error) != NXMEM_HOST_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    CHECK(strcmp(nxmem_host_path(plugin), argv[1]) == 0 && nxmem_host_minor(plugin) == 1);
    mechanisms(plugin);
    CHECK(nxmem_host_provider_new(&provider, &error) == NXMEM_HOST_OK);
    options.required_capabilities = NXMEM_CAPABILITY_DEFERRED_RELEASE;
    options.owner = &completions;
    options.completed = completed;
    options.ended = ended;
    options.provider = provider;
    if (nxmem_host_open(plugin, 0, &options, &allocator, &error) != NXMEM_HOST_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    blocks(allocator);
    queue(allocator, provider);
    CHECK(nxmem_host_unload(&plugin, &gate, &error) == NXMEM_HOST_BUSY && plugin != NULL);
    CHECK(gate.reason == NXMEM_HOST_GATE_HOST && gate.retry == 1 && gate.allocators == 1 && gate.plugin_allocators == 1);
    nxmem_host_close(allocator);
    CHECK(ends == 1);
    CHECK(nxmem_host_unload(&plugin, &gate, &error) == NXMEM_HOST_OK && plugin == NULL);
    nxmem_host_provider_free(provider);
    nxmem_host_counters_now(&counters);
    CHECK(counters.leaked_tables == 0 && counters.forced_leaks == 0 && counters.modules_unmapped == 1);
    if (failures == 0)
        puts("all as it should be");
    return failures != 0;
}
