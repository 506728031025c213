/* The controls of the simulated CUDA driver. They are exported by the simulated libcuda.so.1 beside the cu* names and
 * found by dlsym: a real driver has none of them, so a test can tell where it runs and skip.
 *
 *     sim_version_fn *version = (sim_version_fn *)dlsym(handle, "sim_version");
 *
 * Every function may be called from any thread, before cuInit and after sim_deinitialise too. Streams are named by
 * CUstream handles, the special ones 0 (legacy), 1 and 2 included; those mean streams of the current context. Return
 * values of type int are CUresult codes. */
#ifndef SIMCUDA_H
#define SIMCUDA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct CUstream_st *sim_stream_t; /* CUstream */

/* Version of this interface: 1. */
int sim_version(void);

/* --- streams: hold keeps what is queued from running, release lets it go on, step lets `pieces` of it run. A call
 * that waits for a held stream waits until somebody else releases it. --- */
int sim_hold(sim_stream_t);
int sim_release(sim_stream_t);
int sim_step(sim_stream_t, uint64_t pieces);
/* Streams made from now on start held (1) or free (0). */
void sim_hold_new_streams(int held);
/* Releases every stream of every context. */
void sim_release_all(void);
/* Pieces of work queued in the stream and not done; UINT64_MAX for a bad handle. */
uint64_t sim_pending(sim_stream_t);

/* --- the schedule. With a seed other than 0 (or SIMCUDA_SEED) streams have no threads: ready work runs inside the
 * program's calls, as much and in the order that the seed decides, so that another seed is another interleaving and the
 * same seed the same one (exactly, for a program with one thread). 0 gives the streams their threads back. --- */
void sim_seed(uint64_t seed);
/* Pieces of work done so far: the time of every history that is printed. */
uint64_t sim_clock(void);

/* --- calls, by exact symbol ("cuMemAlloc_v2") --- */
/* Calls so far, refused ones included; UINT64_MAX for an unknown symbol. */
uint64_t sim_calls(const char *symbol);
/* The n-th call from now on (1: the next) answers `code` and does nothing else; n = 0 takes that back. A code that costs a
 * context in CUDA (700, 719 ...) makes the caller's current one answer it until it is destroyed or reset. */
int sim_fail(const char *symbol, uint64_t n, int code);
/* Symbols by number, and whether they are simulated (else they answer CUDA_ERROR_NOT_SUPPORTED); NULL past the end. */
const char *sim_symbol(size_t index, int *ret_simulated);

/* --- the call log: the last 1024 allocation-relevant calls, "symbol result=R address=0xA key=value ...". The same
 * lines go to the file named by SIMCUDA_LOG. Copies line `index` (0: the oldest); 0 when there is none. --- */
int sim_log_get(size_t index, char *text, size_t room);

/* --- what lives --- */
/* Live memory by kind: device, async, managed, graph, module, array, host, registered, map, ipc, external. Requested bytes, and
 * blocks. UINT64_MAX for an unknown kind. */
uint64_t sim_live_bytes(const char *kind);
uint64_t sim_live_blocks(const char *kind);
/* Live handles by kind: context, stream, event, pool, module, library, graph, exec, array, mipmap,
 * physical, external, user, texture, surface, link,
 * semaphore. */
uint64_t sim_live_objects(const char *kind);
/* Bytes taken from a device: sync memory, what pools reserve, physical memory, arrays. */
uint64_t sim_device_used(int ordinal);

/* --- the oracle --- */
/* Queues work that reads and writes [ptr, ptr + bytes), as a kernel would: it is refused by nobody, and judged when it
 * runs. */
int sim_launch_touch(sim_stream_t, uint64_t ptr, uint64_t bytes);
/* The same, and it goes on running: it makes *go 1 when it has begun, and ends when somebody makes it 2. */
int sim_launch_until(sim_stream_t, uint64_t ptr, uint64_t bytes, int *go);
/* Work that met freed, unmapped or not yet allocated memory; calls from host functions. */
uint64_t sim_violations(void);
uint64_t sim_misuses(void);
/* Findings of one kind, by the code that is printed in brackets ("use-after-free"); UINT64_MAX for an unknown code. The
 * codes by number; NULL past the end. */
uint64_t sim_findings(const char *code);
const char *sim_finding_kind(size_t index);

/* From now on a call of the driver by a thread that holds this lock, as `is_held_by_me` says, is a finding
 * ("call-with-lock"). At most 64 locks. */
int sim_lock_register(void *lock, int (*is_held_by_me)(void *));
void sim_lock_unregister(void *lock);
/* Memory and handles that the program made and has not given back. SIMCUDA_LEAKS=1 lists them at exit. */
uint64_t sim_leaks(void);
/* Line `index` of that list: for each kind how many and how large, then the oldest three, with addresses and the calls that
 * made them, and how many more there are; 0 past the end. */
int sim_leak_get(size_t index, char *text, size_t room);

/* --- the driver as a whole --- */
/* From now on every call answers CUDA_ERROR_DEINITIALIZED. */
void sim_deinitialise(void);
/* Does cuMemFree wait for the context's work (1, the default) or not (0)? */
void sim_set_free_waits(int waits);
/* What documentation leaves open, by the names of driver/facts.def and docs/cuda-facts.md: an answer for every setting.
 * -1 and CUDA_ERROR_NOT_FOUND for an unknown name; names by number, NULL past the end. */
int sim_fact_set(const char *name, int value);
int sim_fact_get(const char *name);
const char *sim_fact_name(size_t index);
/* What has run, the program is taken to know of itself: 2 (the default, unless SIMCUDA_LOOKS says otherwise) by host functions
 * and by what it finds in host memory, 1 by host functions only, 0 never, so that only a wait or a query tells. */
void sim_set_looks(int looks);
/* Is freed device memory overwritten (1, the default, unless SIMCUDA_POISON is 0) or left as it was (0)? */
void sim_set_poison(int on);
/* Forgets counts, injected failures, log, violations and misuses. */
void sim_reset(void);

#ifdef __cplusplus
}
#endif
#endif
