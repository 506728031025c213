/* A whole host: loads the plugin named on the command line, takes memory from its first mechanism and gives it back.
 *
 *     cc example-host.c $(pkg-config --cflags --libs nxmem-host)
 */
#include <nxmem_host.h>

#include <stdio.h>

static int use(nxmem_host_plugin *plugin, nxmem_host_error *error)
{
    nxmem_host_block block = NXMEM_HOST_SIZED(nxmem_host_block);
    nxmem_host_allocator *allocator;
    int result = nxmem_host_open(plugin, 0, NULL, &allocator, error);

    if (result != NXMEM_HOST_OK)
        return result;
    result = nxmem_host_allocate(allocator, 1 << 20, 512, &block, error);
    if (result == NXMEM_HOST_OK) {
        printf("%s gave 1 MiB at %p\n", nxmem_host_name(allocator), block.address);
        result = nxmem_host_release(allocator, block.address, block.bytes, block.align, NULL, error);
    }
    nxmem_host_close(allocator);
    return result;
}

int main(int argc, char **argv)
{
    nxmem_host_error error = NXMEM_HOST_SIZED(nxmem_host_error);
    nxmem_host_plugin *plugin;
    int result = nxmem_host_load(argc > 1 ? argv[1] : "host.so", NULL, &plugin, &error);

    if (result == NXMEM_HOST_OK) {
        result = use(plugin, &error);
        if (result != NXMEM_HOST_OK)
            nxmem_host_drop(plugin); /* stays mapped if something is still live in it */
        else
            result = nxmem_host_unload(&plugin, NULL, &error);
    }
    if (result != NXMEM_HOST_OK)
        fprintf(stderr, "%s: %s\n", nxmem_host_class_name(error.code), error.text);
    return result != NXMEM_HOST_OK;
}
