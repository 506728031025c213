/* Ends by the way named first, with what is named second left of the plugin's, and looks whether the plugin is still mapped once the
 * shim has asked its gate: by /proc/self/maps, and by calling code of the plugin. What it sees goes to the file $GATE_SEEN; what it
 * prints is the driver's alone.
 *
 *   gate WAY nothing|live|waiting|endless */
#include "transcript.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "include/nxmem_memory_abi.h"
#include "tests/sim/simcuda.h"

static CUdeviceptr block;
static CUstream stream;
static NxmemStatus (*ask_plugin)(NxmemUnloadReport *report);

static int is_mapped(const char *name)
{
    char line[4096];
    FILE *maps = fopen("/proc/self/maps", "r");
    int found = 0;

    while (maps && fgets(line, sizeof line, maps))
        found += strstr(line, name) != NULL;
    if (maps)
        fclose(maps);
    return found > 0;
}

/* After every exit handler: a destructor of the program, or, for quick_exit, the handler that was registered first. */
static void look(void)
{
    const char *plugin = getenv("GATE_PLUGIN"), *path = getenv("GATE_SEEN");
    FILE *seen = path && plugin ? fopen(path, "w") : NULL;

    if (!seen)
        return;
    fprintf(seen, "mapped %d\n", is_mapped(plugin));
    if (is_mapped(plugin) && ask_plugin) {
        NxmemUnloadReport report = { .struct_size = sizeof report };
        NxmemStatus status = ask_plugin(&report);
        fprintf(seen, "its code answers %u\n", status.code);
    }
    fclose(seen);
}

__attribute__((destructor)) static void look_at_the_end(void)
{
    look();
}

static void find_code_of_plugin(void)
{
    void *handle = getenv("GATE_PLUGIN") ? dlopen(getenv("GATE_PLUGIN"), RTLD_NOW | RTLD_NOLOAD) : NULL;
    void *symbol = handle ? dlsym(handle, "NxmemQueryUnloadReadiness") : NULL;

    memcpy(&ask_plugin, &symbol, sizeof symbol);
    if (handle)
        dlclose(handle);
}

static int goes_on = 0;

static void leave_behind(const char *what)
{
    CUdeviceptr other = 0;

    SHOW(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    SHOW(cuMemAlloc(&other, 100));
    SHOW(cuMemFree(other));
    if (strcmp(what, "live") == 0)
        SHOW(cuMemAlloc(&block, 5000));
    if (strcmp(what, "waiting") == 0 || strcmp(what, "endless") == 0)
        SHOW(cuMemAllocAsync(&block, 5000, stream));
    if (strcmp(what, "waiting") == 0) {
        sim_hold(stream);
        SHOW(cuMemsetD8Async(block, 1, 5000, stream));
        SHOW(cuMemFreeAsync(block, stream));
    }
    if (strcmp(what, "endless") == 0) { /* a kernel that waits for what never comes */
        FACT(sim_launch_until(stream, block, 5000, &goes_on));
        SHOW(cuMemFreeAsync(block, stream));
    }
}

static void *end_process(void *unused)
{
    (void)unused;
    exit(5);
}

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "return", *what = argc > 2 ? argv[2] : "nothing";
    pthread_t thread;

    at_quick_exit(look);
    begin();
    leave_behind(what);
    find_code_of_plugin();
    if (strcmp(way, "exit") == 0)
        exit(3);
    if (strcmp(way, "quick_exit") == 0)
        quick_exit(4);
    if (strcmp(way, "_exit") == 0)
        _exit(6);
    if (strcmp(way, "_Exit") == 0)
        _Exit(7);
    if (strcmp(way, "abort") == 0)
        abort();
    if (strcmp(way, "segv") == 0)
        raise(SIGSEGV);
    if (strcmp(way, "term") == 0)
        raise(SIGTERM);
    if (strcmp(way, "kill") == 0)
        raise(SIGKILL);
    if (strcmp(way, "thread") == 0 && pthread_create(&thread, NULL, end_process, NULL) == 0)
        pthread_join(thread, NULL);
    if (strcmp(way, "last-thread") == 0)
        pthread_exit(NULL);
    return 0;
}
