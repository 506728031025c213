/* nxmem_host.h: libnxmem_host, a host for nxmem memory plugins, ABI 1.1.
 *
 * Loads a plugin (nxmem_memory_abi.h says what that is), opens its mechanisms, and keeps the books that the ABI asks of a
 * host: which blocks are live, what is queued, who still pins the plugin's code. It believes a plugin nothing that it can
 * check. Link with -lnxmem_host (pkg-config nxmem-host). C99 and C++11 on; Linux.
 *
 *     nxmem_host_load -> nxmem_host_open -> nxmem_host_allocate ... nxmem_host_release
 *                                        -> nxmem_host_close -> nxmem_host_unload
 *
 * Rules that hold for every function:
 *
 * Results. 0 (NXMEM_HOST_OK) or a class of enum nxmem_host_class; *error, where given, says the rest. Outputs are written on
 *   success only, unless said otherwise.
 * Places. What a call is made for needs a place: a handle, a mechanism, an index, a block, a cost. NULL there is ARGUMENT, and
 *   nothing was called. Every other output may be NULL, `error` among them; so may ranges that number 0.
 * Structs. Every struct that the caller passes opens with `struct_size`; NXMEM_HOST_SIZED(type) makes a zeroed one of the size
 *   that the caller was compiled with. The library reads and writes no more than that, so structs may grow at their end. A
 *   struct smaller than its first version is refused (NXMEM_HOST_ARGUMENT); as an output it is left alone.
 * Handles are opaque. What a function takes is borrowed, unless its name is close, drop, free or unload. NULL is a handle only
 *   where it says so.
 * Threads. Any function, any thread, at the same time; but a handle's last use must be over before it is given up. No lock of
 *   the library is held while a plugin or a callback of the caller runs.
 * Fork. A child may not call the library: another thread may have been inside, and what it locked stays locked there.
 * Unwinding. No exception and no longjmp may leave a callback.
 * Text goes to the standard error as lines that open with "nxmem: ", once for each kind of fault; nxmem_host_say_less stops it.
 *
 * A plugin may hold on to this library's callbacks longer than to anything else: the library is never unmapped. An embedder that
 * links it statically into something that can be unmapped must keep that mapped once a plugin is loaded.
 *
 * The numbers in brackets name the rules of the nxmem behavioural specification.
 */
#ifndef NXMEM_HOST_H
#define NXMEM_HOST_H

#include <stddef.h>
#include <stdint.h>

#include "nxmem_memory_abi.h"

#if defined(__GNUC__)
#define NXMEM_HOST_EXPORT __attribute__((visibility("default")))
#else
#define NXMEM_HOST_EXPORT
#endif

#ifdef __cplusplus
extern "C++" {
template <typename Struct> static inline Struct nxmem_host_sized()
{
    Struct made = Struct();
    made.struct_size = static_cast<uint32_t>(sizeof made);
    return made;
}
}
#define NXMEM_HOST_SIZED(type) nxmem_host_sized<type>()
extern "C" {
#else
#define NXMEM_HOST_SIZED(type) ((type){ .struct_size = (uint32_t)sizeof(type) })
#endif

#define NXMEM_HOST_VERSION 1u /* of this interface: grows when something is added */

/* --- errors ------------------------------------------------------------------------------------------------- */

/* What went wrong [7.6]. Append-only. */
enum nxmem_host_class {
    NXMEM_HOST_OK = 0,
    NXMEM_HOST_MEMORY = 1,       /* no memory: the plugin's (status OUT_OF_MEMORY) or the library's own (status 0) */
    NXMEM_HOST_ARGUMENT = 2,     /* an argument is wrong; nothing was called */
    NXMEM_HOST_UNKNOWN = 3,      /* no such block here; nothing was called */
    NXMEM_HOST_DUPLICATE = 4,    /* the plugin handed out an address that is live or quarantined; it was handed back */
    NXMEM_HOST_BUSY = 5,         /* something is live still, or the block is being released already */
    NXMEM_HOST_CANNOT_OPEN = 6,  /* the library cannot be opened */
    NXMEM_HOST_NO_SYMBOL = 7,    /* a mandatory export is missing: `what` names it */
    NXMEM_HOST_NEGOTIATION = 8,  /* no common ground, by either side's judgement */
    NXMEM_HOST_CALL = 9,         /* the plugin failed: `what` names the operation, `status` is its answer */
    NXMEM_HOST_CONTRACT = 10,    /* the plugin broke the ABI */
    NXMEM_HOST_NO_MECHANISM = 11,/* none of that name or device: the text lists what there is */
    NXMEM_HOST_UNSUPPORTED = 12, /* the mechanism has no such capability; nothing was called */
    NXMEM_HOST_RETIRED = 13      /* the provider context accepts no more work; nothing was called */
};

/* What a failing status of the plugin asks of the caller [3.6]. */
enum nxmem_host_advice {
    NXMEM_HOST_ADVICE_NONE = 0,     /* the plugin failed, or it was no status of a plugin */
    NXMEM_HOST_ADVICE_CAPACITY = 1, /* ask for less, or free something */
    NXMEM_HOST_ADVICE_CHOICE = 2,   /* use another mechanism */
    NXMEM_HOST_ADVICE_ROUTING = 3   /* what was asked went to the wrong place: never to be taken for out of memory */
};

typedef struct nxmem_host_error {
    uint32_t struct_size;
    uint32_t code;   /* enum nxmem_host_class */
    uint32_t status; /* NxmemStatus.code of the plugin's answer, or 0 */
    uint32_t advice; /* enum nxmem_host_advice */
    char what[64];   /* the operation that failed, or the export that is missing; else empty */
    char text[384];  /* one line: the cause and, where known, the remedy */
} nxmem_host_error;

NXMEM_HOST_EXPORT const char *nxmem_host_class_name(uint32_t code); /* "contract"; "unknown class" for another number */

/* 1: warnings too are kept back. 0: shown, as they are to begin with. */
NXMEM_HOST_EXPORT void nxmem_host_say_less(int less);

/* --- plugins ------------------------------------------------------------------------------------------------ */

typedef struct nxmem_host_plugin nxmem_host_plugin; /* one load of one plugin; the same file may be loaded again [7.7] */

typedef struct nxmem_host_mechanism {
    uint32_t struct_size;
    uint32_t reserved;
    NxmemDeviceId device;
    uint64_t capabilities; /* NXMEM_CAPABILITY_*, as the plugin states them before anything is opened */
    const char *name;      /* borrowed from the plugin: valid while its handle is */
} nxmem_host_mechanism;

/* Opens the very file `path` names and negotiates. `range` NULL: 1.0 to 1.1; one that ends before it starts is ARGUMENT. On
 * success the caller owns the handle. CANNOT_OPEN, NO_SYMBOL, NEGOTIATION, CALL, CONTRACT, MEMORY. */
NXMEM_HOST_EXPORT int nxmem_host_load(const char *path, const NxmemVersionRange *range, nxmem_host_plugin **ret_plugin,
                                      nxmem_host_error *error);

NXMEM_HOST_EXPORT const char *nxmem_host_path(const nxmem_host_plugin *plugin);
NXMEM_HOST_EXPORT uint32_t nxmem_host_minor(const nxmem_host_plugin *plugin);         /* agreed; the major is 1 */
NXMEM_HOST_EXPORT uint64_t nxmem_host_capabilities(const nxmem_host_plugin *plugin);  /* agreed for the whole plugin */
NXMEM_HOST_EXPORT void *nxmem_host_symbol(nxmem_host_plugin *plugin, const char *name); /* another export, or NULL; takes NULL */

NXMEM_HOST_EXPORT size_t nxmem_host_mechanism_count(const nxmem_host_plugin *plugin);
/* ARGUMENT: there are not so many. */
NXMEM_HOST_EXPORT int nxmem_host_mechanism_at(const nxmem_host_plugin *plugin, size_t index,
                                              nxmem_host_mechanism *ret_mechanism);
/* The first of that name (NULL or "": any) for `device` (NULL: any). NO_MECHANISM. */
NXMEM_HOST_EXPORT int nxmem_host_find(const nxmem_host_plugin *plugin, const char *name, const NxmemDeviceId *device,
                                      size_t *ret_index, nxmem_host_error *error);

/* --- provider contexts -------------------------------------------------------------------------------------- */

/* What the caller's memory hangs on (a device context, a stream, a pool of its own), when it must not end while a plugin
 * still has releases of it queued [15.5]. An allocator opened with one takes a pin for each queued release, before the
 * plugin is entered, and gives it back when the completion has ended. */
typedef struct nxmem_host_provider nxmem_host_provider;

NXMEM_HOST_EXPORT int nxmem_host_provider_new(nxmem_host_provider **ret_provider, nxmem_host_error *error); /* MEMORY */
NXMEM_HOST_EXPORT uint64_t nxmem_host_provider_pins(nxmem_host_provider *provider);
/* From now on no pin is given: nxmem_host_enqueue fails with RETIRED. */
NXMEM_HOST_EXPORT void nxmem_host_provider_retire(nxmem_host_provider *provider);
/* Retires it and blocks until the last pin is gone. Not inside a callback. */
NXMEM_HOST_EXPORT void nxmem_host_provider_wait(nxmem_host_provider *provider);
/* Gives the handle up, without waiting; allocators that are bound keep what they need of it. Takes NULL. */
NXMEM_HOST_EXPORT void nxmem_host_provider_free(nxmem_host_provider *provider);

/* --- allocators --------------------------------------------------------------------------------------------- */

typedef struct nxmem_host_allocator nxmem_host_allocator; /* one opened mechanism */

/* A live block, as the allocation left it. The three in the middle name it ever after. */
typedef struct nxmem_host_block {
    uint32_t struct_size;
    uint32_t reserved;
    void *address;                /* of the mechanism's device: not always memory that the processor can reach */
    uint64_t bytes, align;        /* as requested */
    uint64_t id;                  /* unique in the process */
    uint64_t owned, mapped;       /* the plugin's words at allocation, two axes: charged, and attributed [13.11]; at most
                                   * `bytes` and 1 TiB beside, so that sums do not wrap */
} nxmem_host_block;

enum nxmem_host_outcome {
    NXMEM_HOST_COMPLETE = 0,    /* gone */
    NXMEM_HOST_QUARANTINED = 1, /* gone; the plugin keeps `retained` bytes, and the address never comes back [20] */
    NXMEM_HOST_FAILED = 2,      /* live, as if nothing had been asked */
    NXMEM_HOST_QUEUED = 3       /* its completion is to come */
};

typedef struct nxmem_host_release_result {
    uint32_t struct_size;
    uint32_t outcome;   /* enum nxmem_host_outcome */
    uint64_t unmapped;  /* bytes credited, never more than the block's */
    uint64_t retained;  /* bytes that the plugin kept */
    uint64_t ticket;    /* QUEUED and later */
    uint32_t status;    /* the plugin's code, 0 when OK */
    uint32_t reserved;
} nxmem_host_release_result;

typedef struct nxmem_host_options {
    uint32_t struct_size;
    uint32_t reserved;
    uint64_t required_capabilities; /* opening fails when one is absent */
    void *owner;                    /* handed to the callbacks below; outlives the allocator, see nxmem_host_close */
    /* The plugin asks for memory: bytes given back (0 is fine), negative: refused. Inside a plugin's call, on its thread; must
     * not enter this allocator again nor block [16.6]. NULL: there is no such path. */
    int64_t (*reclaim)(void *owner, NxmemDeviceId device, uint64_t bytes);
    /* A queued release ended: any thread, inside nxmem_host_enqueue too. Must not close this allocator nor unload its
     * plugin: the code that calls is the plugin's. NULL allowed. */
    void (*completed)(void *owner, const nxmem_host_block *block, const nxmem_host_release_result *result);
    /* The allocator is no more, nor is `owner` needed. Inside nxmem_host_close or the last nxmem_host_prefix_free, or, when
     * releases stayed queued in the plugin, inside the last completion. NULL allowed. */
    void (*ended)(void *owner);
    /* The provider context that it is bound to: one of this library's, or the caller's own by two functions. `pin` answers 1, or 0
     * when the context accepts no more work; `unpin` ends one pin, on any thread, and must not enter this allocator. */
    nxmem_host_provider *provider; /* borrowed for the call */
    int (*pin)(void *pin_context);
    void (*unpin)(void *pin_context);
    void *pin_context; /* outlives every pin */
} nxmem_host_options;

typedef struct nxmem_host_statistics {
    uint32_t struct_size;
    uint32_t reserved;
    uint64_t live_blocks, live_bytes;               /* as requested; queued ones are among them */
    uint64_t peak_bytes, ever_blocks, ever_bytes;
    uint64_t owned_bytes, mapped_bytes;             /* of live blocks, as nxmem_host_block has them */
    uint64_t queued;                                /* releases whose completion is to come */
    uint64_t quarantined_blocks, quarantined_bytes;
    uint64_t views, view_owned_bytes, view_mapped_bytes; /* shared prefixes in live blocks, as stated at commit */
    uint64_t reclaim_calls, reclaim_failures;       /* the plugin asked for memory; it was refused */
} nxmem_host_statistics;

/* `options` NULL: none. On success the caller owns the handle. MEMORY, CALL, CONTRACT, ARGUMENT. */
NXMEM_HOST_EXPORT int nxmem_host_open(nxmem_host_plugin *plugin, size_t mechanism, const nxmem_host_options *options,
                                      nxmem_host_allocator **ret_allocator, nxmem_host_error *error);

/* Gives the handle up. The allocator ends when its prefixes are gone too: then what is queued is drained, within bounds, and
 * blocks that are live still go back to the plugin [17]. What the plugin does not retire keeps its callbacks, the
 * `owner` and the plugin's code alive until it completes. Takes NULL. */
NXMEM_HOST_EXPORT void nxmem_host_close(nxmem_host_allocator *allocator);

NXMEM_HOST_EXPORT const char *nxmem_host_name(const nxmem_host_allocator *allocator); /* valid while the handle is */
NXMEM_HOST_EXPORT NxmemDeviceId nxmem_host_device(const nxmem_host_allocator *allocator);
NXMEM_HOST_EXPORT uint64_t nxmem_host_mechanism_id(const nxmem_host_allocator *allocator); /* of this opening */
NXMEM_HOST_EXPORT uint64_t nxmem_host_allocator_capabilities(const nxmem_host_allocator *allocator);
/* 1: releases go through the structured slot, which can tell of a quarantine [10.3]. 0: through `deallocate`. */
NXMEM_HOST_EXPORT int nxmem_host_structured_release(const nxmem_host_allocator *allocator);
NXMEM_HOST_EXPORT int nxmem_host_commits_on_demand(const nxmem_host_allocator *allocator); /* 1: it has virtual backing */
NXMEM_HOST_EXPORT int nxmem_host_shares_prefixes(const nxmem_host_allocator *allocator);   /* 1: it has shared mapping */
NXMEM_HOST_EXPORT void nxmem_host_statistics_of(nxmem_host_allocator *allocator, nxmem_host_statistics *ret_statistics);

/* --- blocks ------------------------------------------------------------------------------------------------- */

/* `align`: a power of two, else ARGUMENT. 0 bytes are served too. MEMORY, CALL; CONTRACT, DUPLICATE: refused, and what the
 * plugin handed out was handed back. */
NXMEM_HOST_EXPORT int nxmem_host_allocate(nxmem_host_allocator *allocator, uint64_t bytes, uint64_t align,
                                          nxmem_host_block *ret_block, nxmem_host_error *error);

/* Releases the block now. OK: COMPLETE or QUARANTINED. Every failure leaves the block as it was, and *ret_result says FAILED:
 * UNKNOWN, ARGUMENT (another shape), BUSY: the plugin was not asked; CALL: it refused. */
NXMEM_HOST_EXPORT int nxmem_host_release(nxmem_host_allocator *allocator, void *address, uint64_t bytes, uint64_t align,
                                         nxmem_host_release_result *ret_result, nxmem_host_error *error);

/* Leaves the release to the plugin, which ends it when it is drained, or when it likes. OK: QUEUED, or COMPLETE or QUARANTINED
 * when that has happened already. Failures as above, and UNSUPPORTED, RETIRED, MEMORY: it is never released at once
 * instead. */
NXMEM_HOST_EXPORT int nxmem_host_enqueue(nxmem_host_allocator *allocator, void *address, uint64_t bytes, uint64_t align,
                                         nxmem_host_release_result *ret_result, nxmem_host_error *error);
/* Lets the plugin end at most `budget` queued releases. *ret_retired: how many it says it did, none being fine; on
 * failure (CALL) too. */
NXMEM_HOST_EXPORT int nxmem_host_drain(nxmem_host_allocator *allocator, uint64_t budget, uint64_t *ret_retired,
                                       nxmem_host_error *error);
NXMEM_HOST_EXPORT uint64_t nxmem_host_pending(nxmem_host_allocator *allocator); /* queued, by the plugin's count */

/* --- virtual backing ---------------------------------------------------------------------------------------- */

/* UNSUPPORTED: the mechanism has none, or not this part of it. A range that leaves its block is ARGUMENT, and nothing was
 * called. Granules are the mechanism's: nothing is rounded here [13.7]. */

/* As nxmem_host_allocate, with these ranges committed; none: the address alone. */
NXMEM_HOST_EXPORT int nxmem_host_allocate_committed(nxmem_host_allocator *allocator, uint64_t bytes, uint64_t align,
                                                    const NxmemByteRange *ranges, uint64_t count,
                                                    nxmem_host_block *ret_block, nxmem_host_error *error);
/* One after the other; *ret_done counts those that succeeded, on failure too: they stay committed. */
NXMEM_HOST_EXPORT int nxmem_host_commit(nxmem_host_allocator *allocator, void *address, uint64_t bytes, uint64_t align,
                                        const NxmemByteRange *ranges, uint64_t count, uint64_t *ret_done,
                                        nxmem_host_error *error);
/* *ret_unmapped: what really went, 0 is fine. The address stays. */
NXMEM_HOST_EXPORT int nxmem_host_decommit(nxmem_host_allocator *allocator, void *address, uint64_t bytes, uint64_t align,
                                          const NxmemByteRange *range, uint64_t *ret_unmapped, nxmem_host_error *error);
/* Committed now; 0 also when that cannot be had [13.8]. */
NXMEM_HOST_EXPORT uint64_t nxmem_host_committed(nxmem_host_allocator *allocator, void *address, uint64_t bytes,
                                                uint64_t align);
/* At least what committing would map: for ranges of a live block, or for a block that does not exist yet (address NULL). */
NXMEM_HOST_EXPORT int nxmem_host_cost(nxmem_host_allocator *allocator, void *address, uint64_t bytes, uint64_t align,
                                      const NxmemByteRange *ranges, uint64_t count, uint64_t *ret_mapped,
                                      nxmem_host_error *error);

/* --- shared prefixes ---------------------------------------------------------------------------------------- */

/* Memory that is mapped into several blocks. Each commit is a view; it belongs to the block and goes with it (released, or queued
 * for release). Prefix and views may die in either order [14.7]. */
typedef struct nxmem_host_prefix nxmem_host_prefix;

typedef struct nxmem_host_prefix_facts {
    uint32_t struct_size;
    uint32_t reserved;
    uint64_t bytes;                                          /* as requested */
    uint64_t device_address, committed_bytes, mapped_bytes;  /* the plugin's words */
} nxmem_host_prefix_facts;

typedef struct nxmem_host_view {
    uint32_t struct_size;
    uint32_t reserved;
    uint64_t owned;  /* newly owned: charged once for a prefix */
    uint64_t mapped; /* newly mapped */
    uint64_t granules;
} nxmem_host_view;

/* The prefix keeps its allocator from ending. UNSUPPORTED, MEMORY, CALL, CONTRACT. */
NXMEM_HOST_EXPORT int nxmem_host_prefix_new(nxmem_host_allocator *allocator, uint64_t bytes,
                                            nxmem_host_prefix **ret_prefix, nxmem_host_error *error);
NXMEM_HOST_EXPORT void nxmem_host_prefix_facts_of(const nxmem_host_prefix *prefix, nxmem_host_prefix_facts *ret_facts);
/* What one more view would newly own. ARGUMENT: another allocator's prefix; it is never costed as 0. */
NXMEM_HOST_EXPORT int nxmem_host_prefix_cost(nxmem_host_allocator *allocator, const nxmem_host_prefix *prefix,
                                             uint64_t *ret_owned, nxmem_host_error *error);
/* Maps all of it at `offset` of the live block of `bytes` at `address`, or nothing. */
NXMEM_HOST_EXPORT int nxmem_host_prefix_commit(nxmem_host_allocator *allocator, const nxmem_host_prefix *prefix,
                                               void *address, uint64_t bytes, uint64_t offset,
                                               nxmem_host_view *ret_view, nxmem_host_error *error);
NXMEM_HOST_EXPORT void nxmem_host_prefix_free(nxmem_host_prefix *prefix); /* its views stay; takes NULL */

/* --- the end of a plugin ------------------------------------------------------------------------------------ */

enum nxmem_host_reason {
    NXMEM_HOST_GATE_OPEN = 0,
    NXMEM_HOST_GATE_UNANSWERED = 1, /* the plugin could not report: taken for "still live" [18.5] */
    NXMEM_HOST_GATE_HOST = 2,       /* the library's own tallies are not zero */
    NXMEM_HOST_GATE_PLUGIN = 3,     /* the plugin's report is not zero */
    NXMEM_HOST_GATE_REFERENCED = 4  /* something else pins the module: for good */
};

/* Why a plugin stays mapped: both sides' counts of what is live. */
typedef struct nxmem_host_gate {
    uint32_t struct_size;
    uint32_t reason; /* enum nxmem_host_reason */
    uint32_t retry;  /* 1: the handle is the caller's still; retire what is live and try again. 0: it is gone */
    uint32_t reserved;
    uint64_t allocators, allocations, queued, inside; /* `inside`: the plugin's threads inside a callback of ours */
    uint64_t plugin_allocators, plugin_allocations, plugin_views, plugin_capabilities, plugin_queued;
} nxmem_host_gate;

/* Process-wide, since it began; exact. */
typedef struct nxmem_host_counters {
    uint32_t struct_size;
    uint32_t reserved;
    uint64_t leaked_tables;    /* callback tables that stayed behind with queued releases */
    uint64_t forced_leaks;     /* modules dropped while something was live: mapped for ever */
    uint64_t modules_unmapped; /* modules really closed */
    uint64_t reclaimed_tables; /* leaked tables that a late completion gave back; their module stays mapped */
} nxmem_host_counters;

/* Asks, and changes nothing. `ret_gate` says OPEN or why not. */
NXMEM_HOST_EXPORT void nxmem_host_ask(nxmem_host_plugin *plugin, nxmem_host_gate *ret_gate);

/* OK: unmapped, *plugin is NULL, *ret_gate says OPEN. BUSY: *ret_gate says why, and *plugin is NULL unless trying again makes
 * sense. A plugin with threads of its own must count them until they are out of its code; the library sees them
 * only while they are inside its callbacks [18.10]. */
NXMEM_HOST_EXPORT int nxmem_host_unload(nxmem_host_plugin **plugin, nxmem_host_gate *ret_gate, nxmem_host_error *error);

/* Gives the handle up whatever is live; then the code stays mapped for ever, and is counted [18.4]. Takes NULL. */
NXMEM_HOST_EXPORT void nxmem_host_drop(nxmem_host_plugin *plugin);

/* Keeps the code mapped beyond the handle, for whatever the caller took from it by nxmem_host_symbol. Until it is given up, unloading
 * is refused for good (REFERENCED), and giving it up unmaps. */
typedef struct nxmem_host_code nxmem_host_code;
NXMEM_HOST_EXPORT nxmem_host_code *nxmem_host_keep_code(nxmem_host_plugin *plugin);
NXMEM_HOST_EXPORT void nxmem_host_drop_code(nxmem_host_code *code); /* takes NULL */

NXMEM_HOST_EXPORT void nxmem_host_counters_now(nxmem_host_counters *ret_counters);

#ifdef __cplusplus
}
#endif

#endif
