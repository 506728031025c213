#include "state.h"

#include "device.h"
#include "schedule.h"
#include "facts.h"
#include "log.h"
#include "setting.h"

#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#define MEMORY_DEFAULT (8ull << 30)
enum { MOMENT_NS = 100000, OLDEST = 11040, NEWEST = 99000 };

#ifndef SIM_PROFILE_VERSION
#define SIM_PROFILE_VERSION 13000
#endif

struct sim_settings sim_settings = { .version = SIM_PROFILE_VERSION };

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
    if (sim_schedule_looks()) sim_wait_a_moment();
    else pthread_cond_wait(&progress, &lock);
}

void sim_wait_a_moment(void)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += MOMENT_NS;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    pthread_cond_timedwait(&progress, &lock, &until);
}

bool sim_wait_progress_until(const struct timespec *until)
{
    return pthread_cond_timedwait(&progress, &lock, until) == 0;
}

void sim_progress(void)
{
    pthread_cond_broadcast(&progress);
}

/* "8G,512M": as many devices as there are entries, and the last for all the others. */
static bool parse_memory(const char *text, uint64_t *ret_memory)
{
    uint64_t bytes = 0;
    for (int i = 0; i < SIM_DEVICES_MAX; i++) {
        if (i == 0 || *text) {
            if (!sim_setting_parse_bytes(text, &text, &bytes) || !bytes || (*text && *text != ',')) return false;
            if (*text && !*++text) return false; /* nothing behind the comma */
        }
        ret_memory[i] = bytes;
    }
    return !*text;
}

static void read_memory(void)
{
    const char *text = sim_setting_text(SIM_SETTING_MEMORY);
    if (text && parse_memory(text, sim_settings.memory)) return;
    if (text) sim_setting_refuse(SIM_SETTING_MEMORY);
    for (int i = 0; i < SIM_DEVICES_MAX; i++) sim_settings.memory[i] = MEMORY_DEFAULT;
}

/* "12.4" -> 12040 */
static void read_version(void)
{
    const char *text = sim_setting_text(SIM_SETTING_PROFILE);
    unsigned major, minor;
    int end = 0;
    if (!text) return;
    if (sscanf(text, "%2u.%1u%n", &major, &minor, &end) == 2 && !text[end]) {
        unsigned version = major * 1000 + minor * 10;
        if (version >= OLDEST && version <= NEWEST) {
            sim_settings.version = (int)version;
            return;
        }
    }
    sim_setting_refuse(SIM_SETTING_PROFILE);
}

/* Before main, so that cuDriverGetVersion and the resolver answer by profile before cuInit. */
__attribute__((constructor)) static void read_settings(void)
{
    sim_settings.devices = (int)sim_setting_number(SIM_SETTING_DEVICES, 1, 0, SIM_DEVICES_MAX);
    read_memory();
    read_version();
    sim_settings.context_overhead = sim_setting_bytes(SIM_SETTING_CONTEXT_OVERHEAD, 0);
    sim_settings.module_memory = sim_setting_bytes(SIM_SETTING_MODULE_MEMORY, 0);
    sim_settings.local_memory = sim_setting_bytes(SIM_SETTING_LOCAL_MEMORY, 0);
    sim_settings.looks = (int)sim_setting_number(SIM_SETTING_LOOKS, 2, 0, 2);
    sim_settings.host_memory = sim_setting_bool(SIM_SETTING_HOST_MEMORY, false);
    sim_facts_read(sim_settings.version);
}

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
    sim_log_before_fork();
}

static void after_fork_parent(void)
{
    sim_log_after_fork();
    pthread_mutex_unlock(&lock);
}

/* The child has none of our threads: as with the real driver, a driver that was initialised is lost to it. */
static void after_fork_child(void)
{
    if (atomic_load(&life) != SIM_FRESH) atomic_store(&life, SIM_FORKED);
    sim_log_after_fork();
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
