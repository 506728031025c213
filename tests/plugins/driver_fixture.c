#include "tests/plugins/driver_fixture.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

void fixture_open(struct fixture *f, const char *plugin, const char *mechanism)
{
    memset(f, 0, sizeof *f);
    f->driver = dlopen(build_path("tests/plugins/fixtures/cuda/libcuda.so.1"), RTLD_NOW | RTLD_LOCAL);
    assert_non_null(f->driver);
    f->cuda = dlsym(f->driver, "fake_cuda");
    assert_non_null(f->cuda);
    memset(f->cuda, 0, sizeof *f->cuda);
    f->cuda->devices = 2;
    plugin_load(&f->plugin, plugin, 1);
    assert_int_equal(plugin_open(&f->plugin, plugin_factory(&f->plugin, mechanism, 0), 1, 0, &f->vtable).code, 0);
    f->ctx = f->vtable->ctx;
    if (f->plugin.query_cuda != NULL && f->plugin.query_cuda(f->vtable, &f->companion).code != NXMEM_STATUS_OK)
        f->companion = NULL;
}

void fixture_close(struct fixture *f)
{
    if (f->vtable != NULL)
        f->vtable->release(f->ctx);
    plugin_unload(&f->plugin);
    dlclose(f->driver);
}

int direct_setup(void **state)
{
    struct fixture *f = malloc(sizeof *f);

    assert_non_null(f);
    fixture_open(f, DIRECT, "direct");
    assert_non_null(f->companion);
    *state = f;
    return 0;
}

int direct_teardown(void **state)
{
    fixture_close(*state);
    free(*state);
    return 0;
}

int fixture_calls(const struct fixture *f, enum fake_call call)
{
    return atomic_load(&f->cuda->calls[call]);
}

NxmemStatus fixture_enqueue_on(const struct fixture *f, const NxmemCudaOrder *order,
                               const NxmemAllocation *allocation)
{
    uint64_t ticket = 0;

    return f->companion->enqueue_release_on(f->companion->ctx, order, allocation, &ticket);
}
