#include "state.h"

#include "device.h"
#include "schedule.h"
#include "facts.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#ifndef SIM_PROFILE_VERSION
#define SIM_PROFILE_VERSION 13000
#endif

struct sim_settings sim_settings = { .devices = 1, .version = SIM_PROFILE_VERSION };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t progress = PTHREAD_COND_INITIALIZER;
static atomic_int life = SIM_FRESH;

enum sim_life sim_life(void)
{
    return (enum sim_life)atomic_load(&life);
}

void sim_lock(void)
{
    pthread_mutex_lock(&lock);
}

void sim_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

pthread_mutex_t *sim_state_mutex(void)
{
    return &lock;
}

void sim_wait_progress(void)
{
    if (sim_schedule_step()) return;
    pthread_cond_wait(&progress, &lock);
}

bool sim_wait_progress_until(const struct timespec *until)
{
    return pthread_cond_timedwait(&progress, &lock, until) == 0;
}

void sim_progress(void)
{
    pthread_cond_broadcast(&progress);
}

static uint64_t parse_bytes(const char *text)
{
    char *end;
    uint64_t n = strtoull(text, &end, 0);
    switch (*end) {
    case 'G': case 'g': return n << 30;
    case 'M': case 'm': return n << 20;
    case 'K': case 'k': return n << 10;
    default: return n;
    }
}

/* "8G,512M": as many devices as there are entries, and the last for all the others. */
static void read_memory(const char *text)
{
    uint64_t bytes = 8ull << 30;
    for (int i = 0; i < SIM_DEVICES_MAX; i++) {
        if (text && parse_bytes(text)) bytes = parse_bytes(text);
        sim_settings.memory[i] = bytes;
        text = text ? strchr(text, ',') : NULL;
        if (text) text++;
    }
}

/* "12.4" -> 12040 */
static int parse_version(const char *text)
{
    char *end;
    long major = strtol(text, &end, 10);
    long minor = *end == '.' ? strtol(end + 1, NULL, 10) : 0;
    return major > 0 && major < 1000 ? (int)(major * 1000 + minor * 10) : SIM_PROFILE_VERSION;
}

/* Before main, so that cuDriverGetVersion and the resolver answer by profile before cuInit. */
__attribute__((constructor)) static void read_settings(void)
{
    const char *text;
    if ((text = getenv("SIMCUDA_DEVICES"))) {
        int n = atoi(text);
        sim_settings.devices = n < 0 ? 0 : n > SIM_DEVICES_MAX ? SIM_DEVICES_MAX : n;
    }
    read_memory(getenv("SIMCUDA_MEMORY"));
    if ((text = getenv("SIMCUDA_PROFILE"))) sim_settings.version = parse_version(text);
    if ((text = getenv("SIMCUDA_CONTEXT_OVERHEAD"))) sim_settings.context_overhead = parse_bytes(text);
    if ((text = getenv("SIMCUDA_MODULE_MEMORY"))) sim_settings.module_memory = parse_bytes(text);
    if ((text = getenv("SIMCUDA_LOCAL_MEMORY"))) sim_settings.local_memory = parse_bytes(text);
    if ((text = getenv("SIMCUDA_HOST_MEMORY"))) sim_settings.host_memory = strcmp(text, "0") != 0;
    sim_facts_read(sim_settings.version);
}

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void after_fork_parent(void)
{
    pthread_mutex_unlock(&lock);
}

/* The child has none of our threads: as with the real driver, a driver that was initialised is lost to it. */
static void after_fork_child(void)
{
    if (atomic_load(&life) != SIM_FRESH) atomic_store(&life, SIM_FORKED);
    pthread_mutex_unlock(&lock);
    pthread_cond_init(&progress, NULL);
}

__attribute__((constructor)) static void watch_forks(void)
{
    pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}

CUresult sim_start(void)
{
    CUresult result = CUDA_SUCCESS;
    sim_lock();
    if (sim_life() == SIM_FRESH) {
        result = sim_devices_open();
        if (result == CUDA_SUCCESS) atomic_store(&life, SIM_READY);
    }
    sim_unlock();
    return result;
}

/* At exit the driver shuts down like the real one: destructors that run later are told. */
__attribute__((destructor)) static void shut_down(void)
{
    sim_stop();
}

void sim_stop(void)
{
    atomic_store(&life, SIM_GONE);
}
