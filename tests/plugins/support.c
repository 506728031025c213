#include "tests/plugins/support.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

const char *build_path(const char *relative)
{
    static const char own_folder[] = "/tests/plugins"; /* below the build folder */
    static char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    char *end;

    assert_true(length > 0);
    path[length] = '\0';
    end = strrchr(path, '/');
    assert_non_null(end);
    assert_true(end - path > (ptrdiff_t)strlen(own_folder));
    end -= strlen(own_folder);
    assert_memory_equal(end, own_folder, strlen(own_folder));
    snprintf(end + 1, sizeof path - (size_t)(end + 1 - path), "%s", relative);
    return path;
}

static NxmemStatus status_of(uint32_t code)
{
    NxmemStatus status;

    memset(&status, 0, sizeof status);
    status.code = code;
    return status;
}

static NxmemStatus on_reclaim(void *ctx, const NxmemReclaimRequest *request, uint64_t *reclaimed)
{
    struct fake_host *host = ctx;

    pthread_mutex_lock(&host->lock);
    host->reclaims++;
    host->reclaim_bytes = request->bytes;
    pthread_mutex_unlock(&host->lock);
    if (host->on_reclaim != NULL)
        host->on_reclaim(host->argument);
    *reclaimed = 0;
    return status_of(host->reclaim_answer);
}

static NxmemStatus on_completed(void *ctx, const NxmemReleaseCompletion *completion)
{
    struct fake_host *host = ctx;
    unsigned number;

    pthread_mutex_lock(&host->lock);
    number = ++host->completions;
    if (number <= LOG_CAPACITY)
        host->log[number - 1] = *completion;
    pthread_mutex_unlock(&host->lock);
    if (host->on_complete != NULL)
        host->on_complete(host->argument);
    if (host->refuse_from != 0)
        return status_of(number >= host->refuse_from ? NXMEM_STATUS_INTERNAL_ERROR : NXMEM_STATUS_OK);
    return status_of(host->complete_answer);
}

static void host_init(struct fake_host *host, uint32_t minor)
{
    memset(host, 0, sizeof *host);
    pthread_mutex_init(&host->lock, NULL);
    host->callbacks = (NxmemHostCallbacks){sizeof host->callbacks, minor, host, on_reclaim, on_completed};
}

NxmemNegotiateRequest negotiate_request(uint32_t minor)
{
    return (NxmemNegotiateRequest){sizeof(NxmemNegotiateRequest), 0, {1, 1, 0, minor}, NXMEM_CAPABILITY_KNOWN_MASK};
}

static void *must_resolve(void *library, const char *symbol)
{
    void *found = dlsym(library, symbol);

    assert_non_null(found);
    return found;
}

void plugin_load(struct plugin *plugin, const char *relative, uint32_t minor)
{
    NxmemNegotiateRequest request = negotiate_request(minor);
    NxmemNegotiateResponse response = {.struct_size = sizeof response};

    memset(plugin, 0, sizeof *plugin);
    host_init(&plugin->host, minor);
    plugin->library = dlopen(build_path(relative), RTLD_LAZY | RTLD_LOCAL);
    if (plugin->library == NULL)
        fail_msg("%s", dlerror());
    plugin->negotiate = (NxmemNegotiateFn)must_resolve(plugin->library, NXMEM_SYMBOL_NEGOTIATE);
    plugin->create = (NxmemCreateAllocatorFactoriesFn)must_resolve(plugin->library,
                                                                   NXMEM_SYMBOL_CREATE_ALLOCATOR_FACTORIES);
    plugin->readiness =
        (NxmemQueryUnloadReadinessFn)must_resolve(plugin->library, NXMEM_SYMBOL_QUERY_UNLOAD_READINESS);
    plugin->query_cuda = (NxmemQueryCudaFn)dlsym(plugin->library, NXMEM_SYMBOL_QUERY_CUDA);
    assert_int_equal(plugin->negotiate(&request, &response).code, NXMEM_STATUS_OK);
    assert_int_equal(response.agreed_minor, minor);
    assert_int_equal(plugin->create(plugin->factories, 64, &plugin->factory_count).code, NXMEM_STATUS_OK);
    assert_true(plugin->factory_count > 0 && plugin->factory_count <= 64);
}

void plugin_unload(struct plugin *plugin)
{
    for (uint64_t i = 0; i < plugin->factory_count; i++)
        plugin->factories[i]->release(plugin->factories[i]->ctx);
    dlclose(plugin->library);
    pthread_mutex_destroy(&plugin->host.lock);
}

const NxmemAllocatorFactoryVtable *plugin_factory(const struct plugin *plugin, const char *name, uint32_t index)
{
    for (uint64_t i = 0; i < plugin->factory_count; i++) {
        const NxmemAllocatorFactoryVtable *factory = plugin->factories[i];

        if (strcmp((const char *)factory->name, name) == 0 && factory->device.index == index)
            return factory;
    }
    fail_msg("no mechanism %s for device %u", name, (unsigned)index);
    return NULL;
}

NxmemStatus plugin_open(struct plugin *plugin, const NxmemAllocatorFactoryVtable *factory, uint32_t minor,
                        uint64_t required, const NxmemAllocatorVtable **vtable)
{
    NxmemOpenRequest request = {sizeof request, minor, factory->device, required, &plugin->host.callbacks};

    *vtable = NULL;
    return factory->open_allocator(factory->ctx, &request, vtable);
}

NxmemUnloadReport plugin_report(const struct plugin *plugin)
{
    NxmemUnloadReport report = {.struct_size = sizeof report};

    assert_int_equal(plugin->readiness(&report).code, NXMEM_STATUS_OK);
    assert_int_equal(report.struct_size, sizeof report);
    return report;
}

NxmemAllocRequest request_for(const NxmemAllocatorVtable *vtable, uint64_t id, uint64_t bytes, uint64_t align)
{
    return (NxmemAllocRequest){.struct_size = sizeof(NxmemAllocRequest),
                               .mechanism_id = vtable->mechanism_id,
                               .allocation_id = id,
                               .device = vtable->device,
                               .bytes = bytes,
                               .align = align};
}

NxmemAllocation allocation_of(const NxmemAllocRequest *request, const NxmemAllocResult *result)
{
    return (NxmemAllocation){.struct_size = sizeof(NxmemAllocation),
                             .mechanism_id = request->mechanism_id,
                             .allocation_id = request->allocation_id,
                             .device = request->device,
                             .ptr = result->ptr,
                             .bytes = request->bytes,
                             .align = request->align};
}

NxmemCudaOrder order_of(uint32_t kind, uint64_t stream, uint64_t pool, uint32_t flags)
{
    return (NxmemCudaOrder){.struct_size = sizeof(NxmemCudaOrder),
                            .kind = kind,
                            .context = 1,
                            .stream = stream,
                            .pool = pool,
                            .stream_key = kind == NXMEM_CUDA_ORDER_SYNCHRONOUS ? 0 : 100 + stream,
                            .flags = flags};
}

void *exact_prefix(const void *source, uint32_t size)
{
    void *copy = malloc(size);

    assert_non_null(copy);
    memcpy(copy, source, size);
    memcpy(copy, &size, sizeof size);
    return copy;
}

static NxmemAllocation accepted(const NxmemAllocRequest *request, const NxmemStatus *status,
                                const NxmemAllocResult *result)
{
    if (status->code != NXMEM_STATUS_OK)
        fail_msg("allocation refused: %u %s", status->code, (const char *)status->message);
    assert_non_null(result->ptr);
    assert_int_equal((uintptr_t)result->ptr % request->align, 0);
    return allocation_of(request, result);
}

NxmemAllocation must_allocate(const NxmemAllocatorVtable *vtable, uint64_t id, uint64_t bytes, uint64_t align)
{
    NxmemAllocRequest request = request_for(vtable, id, bytes, align);
    NxmemAllocResult result = {.struct_size = sizeof result};
    NxmemStatus status = vtable->allocate(vtable->ctx, &request, &result);

    return accepted(&request, &status, &result);
}

NxmemAllocation must_allocate_on(const NxmemAllocatorVtable *vtable, const NxmemCudaVtable *companion,
                                 const NxmemCudaOrder *order, uint64_t id, uint64_t bytes)
{
    NxmemAllocRequest request = request_for(vtable, id, bytes, 512);
    NxmemAllocResult result = {.struct_size = sizeof result};
    NxmemStatus status = companion->allocate_on(companion->ctx, order, &request, &result);

    return accepted(&request, &status, &result);
}

uint32_t release_now(const NxmemAllocatorVtable *vtable, const NxmemAllocation *allocation, uint32_t *state)
{
    NxmemReleaseOutcome outcome = {.struct_size = sizeof outcome, .state = 0xFFFFFFFFu};
    NxmemStatus status = vtable->release_allocation(vtable->ctx, allocation, &outcome);

    if (state != NULL)
        *state = outcome.state;
    return status.code;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

/* Runs the tool on the file ("tool 'path' rest") and hands each line's last word to `check`. */
static unsigned each_last_word(const char *tool, const char *relative, const char *rest,
                               void (*check)(const char *word, const char *argument), const char *argument)
{
    char line[4200];
    unsigned lines = 0;
    FILE *pipe;

    snprintf(line, sizeof line, "%s '%s' %s", tool, build_path(relative), rest);
    pipe = popen(line, "r");
    assert_non_null(pipe);
    while (fgets(line, sizeof line, pipe) != NULL) {
        char *word = strrchr(line, ' ');

        line[strcspn(line, "\n")] = '\0';
        if (word != NULL) {
            check(word + 1, argument);
            lines++;
        }
    }
    assert_int_equal(pclose(pipe), 0);
    return lines;
}

static void check_export(const char *word, const char *names)
{
    char padded[256];

    if (SANITIZED && strncmp(word, "__", 2) == 0)
        return;
    snprintf(padded, sizeof padded, " %s ", word);
    if (strstr(names, padded) == NULL)
        fail_msg("unexpected export: %s", word);
}

void assert_exports_only(const char *relative, const char *names)
{
    assert_true(each_last_word("nm -D --defined-only", relative, "", check_export, names) >= 3);
}

static void check_call(const char *word, const char *names)
{
    char padded[256];

    snprintf(padded, sizeof padded, " %.*s ", (int)strcspn(word, "@"), word);
    if (strstr(names, padded) != NULL)
        fail_msg("refers to %s", word);
}

void assert_calls_none_of(const char *relative, const char *names)
{
    assert_true(each_last_word("nm -D --undefined-only", relative, "", check_call, names) > 0);
}

static void check_needed(const char *word, const char *unused)
{
    (void)unused;
    if (SANITIZED && (strncmp(word, "[lib", 4) == 0))
        return;
    if (strcmp(word, "[libc.so.6]") != 0)
        fail_msg("needs %s", word);
}

void assert_needs_libc_only(const char *relative)
{
    assert_true(each_last_word("readelf -d", relative, "| grep NEEDED", check_needed, NULL) > 0);
}
