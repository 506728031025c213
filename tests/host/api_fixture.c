#include "tests/host/api_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/support/fake.h"

struct api api;

void api_open(void)
{
    if (nxmem_host_open(api.plugin, 0, &api.options, &api.allocator, &api.error) != NXMEM_HOST_OK)
        fail_msg("%s", api.error.text);
}

void api_close(void)
{
    nxmem_host_close(api.allocator);
    api.allocator = NULL;
}

int api_setup(void **state)
{
    (void)state;
    fake_reset();
    fake.maps = true;
    fake.extra_flags = NXMEM_CAPABILITY_KNOWN_MASK;
    api.error = NXMEM_HOST_SIZED(nxmem_host_error);
    api.options = NXMEM_HOST_SIZED(nxmem_host_options);
    return nxmem_host_load(API_PLUGIN, NULL, &api.plugin, &api.error);
}

int api_setup_open(void **state)
{
    int result = api_setup(state);

    if (result == 0)
        api_open();
    return result;
}

int api_teardown(void **state)
{
    (void)state;
    api_close();
    assert_int_equal(fake.releases, fake.opens);
    assert_int_equal(fake.live, 0);
    assert_int_equal(nxmem_host_unload(&api.plugin, NULL, &api.error), NXMEM_HOST_OK);
    assert_null(api.plugin);
    fake_reset();
    return 0;
}

nxmem_host_block api_allocate(uint64_t bytes)
{
    nxmem_host_block block = NXMEM_HOST_SIZED(nxmem_host_block);

    assert_int_equal(nxmem_host_allocate(api.allocator, bytes, 256, &block, &api.error), NXMEM_HOST_OK);
    return block;
}

int api_release(const nxmem_host_block *block, nxmem_host_release_result *ret_result)
{
    *ret_result = NXMEM_HOST_SIZED(nxmem_host_release_result);
    return nxmem_host_release(api.allocator, block->address, block->bytes, block->align, ret_result, &api.error);
}

int api_enqueue(const nxmem_host_block *block, nxmem_host_release_result *ret_result)
{
    *ret_result = NXMEM_HOST_SIZED(nxmem_host_release_result);
    return nxmem_host_enqueue(api.allocator, block->address, block->bytes, block->align, ret_result, &api.error);
}

uint64_t api_drain(uint64_t budget)
{
    uint64_t retired = 99;

    assert_int_equal(nxmem_host_drain(api.allocator, budget, &retired, &api.error), NXMEM_HOST_OK);
    return retired;
}

nxmem_host_statistics api_statistics(void)
{
    nxmem_host_statistics now = NXMEM_HOST_SIZED(nxmem_host_statistics);

    nxmem_host_statistics_of(api.allocator, &now);
    return now;
}
