/* An allocator of a plugin that serves memory through the driver, over the fake driver. Owns all of it from
 * setup to teardown; one at a time. */
#ifndef TESTS_PLUGINS_DRIVER_FIXTURE_H
#define TESTS_PLUGINS_DRIVER_FIXTURE_H

#include "tests/plugins/fixtures/fake_cuda.h"
#include "tests/plugins/support.h"

#define DIRECT "lib/nxmem/direct.so"

struct fixture {
    struct plugin plugin;
    void *driver;
    struct fake_cuda *cuda; /* all zero but two devices */
    const NxmemAllocatorVtable *vtable; /* NULL once the test has released it */
    const NxmemCudaVtable *companion;
    void *ctx;
};

/* Loads the fake driver and the plugin, opens the mechanism for device 0 and queries its companion. */
void fixture_open(struct fixture *f, const char *plugin, const char *mechanism);
void fixture_close(struct fixture *f);

/* The same for direct, as cmocka wants it. */
int direct_setup(void **state);
int direct_teardown(void **state);

int fixture_calls(const struct fixture *f, enum fake_call call);
NxmemStatus fixture_enqueue_on(const struct fixture *f, const NxmemCudaOrder *order,
                               const NxmemAllocation *allocation);

#endif
