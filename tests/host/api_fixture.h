/* What the tests of include/nxmem_host.h need: the fake plugin loaded, with every capability, and one allocator. It sees nothing
 * of core. */
#ifndef API_FIXTURE_H
#define API_FIXTURE_H

#include "nxmem_host.h"

#define API_PLUGIN UNIT_DIR "/plugins/fake.so"
#define API_BYTES (16 * UINT64_C(4096))

struct api {
    nxmem_host_plugin *plugin;
    nxmem_host_allocator *allocator; /* NULL until api_open */
    nxmem_host_options options;      /* of the next api_open */
    nxmem_host_error error;          /* of the last call that failed */
};

extern struct api api;

/* Setup and teardown of cmocka. The teardown closes the allocator and wants everything to have come back. */
int api_setup(void **state);
int api_setup_open(void **state); /* and the allocator is open */
int api_teardown(void **state);

void api_open(void);
void api_close(void);

/* These must succeed, but for the two releases. */
nxmem_host_block api_allocate(uint64_t bytes);
int api_release(const nxmem_host_block *block, nxmem_host_release_result *ret_result);
int api_enqueue(const nxmem_host_block *block, nxmem_host_release_result *ret_result);
uint64_t api_drain(uint64_t budget);
nxmem_host_statistics api_statistics(void);

#endif
