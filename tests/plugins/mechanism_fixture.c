#include "tests/plugins/mechanism_fixture.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void open_of(struct mechanism *m, const char *plugin, const char *name, uint32_t minor)
{
    plugin_load(&m->plugin, plugin, minor);
    assert_int_equal(plugin_open(&m->plugin, plugin_factory(&m->plugin, name, 0), minor, 0, &m->vtable).code, 0);
    m->ctx = m->vtable->ctx;
}

void mechanism_open(struct mechanism *m, const char *name, uint32_t minor)
{
    open_of(m, TESTPLUGIN, name, minor);
}

void faulty_host_open(struct mechanism *m, const char *name)
{
    open_of(m, FAULTY_HOST, name, 1);
}

void mechanism_release(struct mechanism *m)
{
    m->vtable->release(m->ctx);
    m->vtable = NULL;
}

void mechanism_close(struct mechanism *m)
{
    if (m->vtable != NULL)
        mechanism_release(m);
    assert_report(m, 0, 0, 0, 0, 0);
    plugin_unload(&m->plugin);
}

static uint64_t ask(const struct plugin *plugin, const char *prefix, const char *name)
{
    uint64_t (*function)(void);
    char symbol[80];
    void *found;

    snprintf(symbol, sizeof symbol, "%s%s", prefix, name);
    found = dlsym(plugin->library, symbol);
    assert_non_null(found);
    memcpy(&function, &found, sizeof function);
    return function();
}

uint64_t testplugin_ask(const struct plugin *plugin, const char *name)
{
    return ask(plugin, "NxmemTestplugin", name);
}

uint64_t faulty_host_ask(const struct plugin *plugin, const char *name)
{
    return ask(plugin, "NxmemFaultyHost", name);
}

uint64_t released(const struct mechanism *m, const NxmemAllocation *block)
{
    NxmemReleaseOutcome outcome = {.struct_size = sizeof outcome, .state = 9};
    uint64_t unmapped = 99;

    if (m->vtable->abi_minor >= 1 && m->vtable->release_allocation != NULL) {
        assert_int_equal(m->vtable->release_allocation(m->ctx, block, &outcome).code, NXMEM_STATUS_OK);
        assert_int_equal(outcome.state, NXMEM_RELEASE_COMPLETE);
        assert_int_equal(outcome.allocation_bytes, block->bytes);
        assert_int_equal(outcome.residual_owned_bytes, 0);
        return outcome.unmapped_bytes;
    }
    assert_int_equal(m->vtable->deallocate(m->ctx, block, &unmapped).code, NXMEM_STATUS_OK);
    return unmapped;
}

NxmemRangeRequest range_of(const NxmemAllocation *block, uint64_t offset, uint64_t bytes)
{
    return (NxmemRangeRequest){.struct_size = sizeof(NxmemRangeRequest), .allocation = *block, .range = {offset, bytes}};
}

uint32_t enqueue(const struct mechanism *m, const NxmemAllocation *block, uint64_t *ret_ticket)
{
    uint64_t ticket = 0;
    uint32_t code = m->vtable->enqueue_release(m->ctx, block, &ticket).code;

    if (ret_ticket != NULL)
        *ret_ticket = ticket;
    return code;
}

uint64_t drained(const struct mechanism *m, uint64_t max)
{
    uint64_t retired = 99;

    assert_int_equal(m->vtable->drain_releases(m->ctx, max, &retired).code, NXMEM_STATUS_OK);
    return retired;
}

uint64_t queued(const struct mechanism *m)
{
    uint64_t count = 99;

    assert_int_equal(m->vtable->pending_release_count(m->ctx, &count).code, NXMEM_STATUS_OK);
    return count;
}

void assert_report(const struct mechanism *m, uint64_t allocators, uint64_t allocations, uint64_t views,
                   uint64_t capabilities, uint64_t queued_releases)
{
    NxmemUnloadReport report = plugin_report(&m->plugin);

    assert_int_equal(report.live_allocators, allocators);
    assert_int_equal(report.live_allocations, allocations);
    assert_int_equal(report.live_views, views);
    assert_int_equal(report.live_capabilities, capabilities);
    assert_int_equal(report.queued_releases, queued_releases);
}
