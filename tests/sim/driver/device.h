/* Devices: identity, attributes, memory accounts. Opened once by cuInit. Functions without "lock" in their comment
 * need the state lock held. */
#ifndef SIM_DEVICE_H
#define SIM_DEVICE_H

#include "api.h"
#include "arena.h"

enum { SIM_DEVICES_MAX = 16, SIM_MULTIPROCESSORS = 64 };

struct sim_context;
struct sim_pool;

struct sim_device {
    int ordinal;                 /* as this process counts */
    int physical;                /* as the machine does: what identifies it to another process */
    struct sim_arena arena;
    uint64_t total;              /* bytes the device has */
    uint64_t used;               /* sync blocks, created physical memory, arrays, and what pools reserve */
    uint64_t graph_cached;       /* part of `used`: what graphs gave back and cuDeviceGraphMemTrim has not */
    struct sim_context *primary; /* exists from the first retain on; the handle stays the same after a reset */
    unsigned primary_refs;
    unsigned primary_flags;
    struct sim_pool *default_pool, *pool;
};

CUresult sim_devices_open(void);
/* Borrowed; NULL for a bad ordinal. No lock needed. */
struct sim_device *sim_device_get(int ordinal);
/* By the machine's count; NULL when this process does not see it. No lock needed. */
struct sim_device *sim_device_physical(int physical);
int sim_device_count(void);
/* The device whose arena an address lies in, or NULL. No lock needed. */
struct sim_device *sim_device_of_address(uint64_t address);
/* Host memory, any node of it? The machine has one node, 0. */
bool sim_host_location(const CUmemLocation *);
/* Takes bytes from the device's account; false when it has not that many. */
bool sim_device_charge(struct sim_device *, uint64_t bytes);
void sim_device_refund(struct sim_device *, uint64_t bytes);
/* The same for graph memory, which stays the device's until it is trimmed or something else needs it. */
bool sim_device_charge_graph(struct sim_device *, uint64_t bytes);
void sim_device_trim_graphs(struct sim_device *);

#endif
