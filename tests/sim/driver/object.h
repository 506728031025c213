/* Handles. Every object a program holds starts with a struct sim_object and is registered here, so that a handle
 * is recognised before it is dereferenced. All functions: the state lock is held. */
#ifndef SIM_OBJECT_H
#define SIM_OBJECT_H

#include "trace.h"

enum sim_kind {
    SIM_CONTEXT, SIM_STREAM, SIM_EVENT, SIM_POOL, SIM_MODULE, SIM_FUNCTION, SIM_LIBRARY, SIM_KERNEL,
    SIM_GRAPH, SIM_NODE, SIM_EXEC, SIM_ARRAY, SIM_MIPMAP, SIM_HANDLE, SIM_USER_OBJECT, SIM_EXTERNAL,
    SIM_TEXTURE, SIM_SURFACE, SIM_LINK, SIM_SEMAPHORE, SIM_KINDS
};

struct sim_object {
    struct sim_object *next; /* in its hash bucket */
    enum sim_kind kind;
    bool open;               /* the program's handle is valid */
    unsigned refs;           /* the handle is one, work and other objects hold the others */
    uint64_t id;             /* unique in the process */
    struct sim_trace made;   /* the call that made it */
    void (*destroy)(struct sim_object *); /* the last reference went: free the rest (not the struct) */
};

/* Zeroed, registered, one reference owned by the handle; NULL when out of memory. */
void *sim_object_new(enum sim_kind kind, size_t size, void (*destroy)(struct sim_object *));
/* The open object behind a handle, borrowed; NULL if it is none of that kind. */
void *sim_object_find(const void *handle, enum sim_kind kind);
/* The handle becomes invalid and its reference is dropped. */
void sim_object_close(struct sim_object *);
/* A closed object that references kept alive gets a valid handle again, with a reference of its own. */
void sim_object_reopen(struct sim_object *);
void sim_object_ref(struct sim_object *);
void sim_object_unref(struct sim_object *);
/* Open objects of a kind. */
size_t sim_object_count(enum sim_kind kind);
/* Calls `visit` for each open object of a kind; it must not open or close objects. */
void sim_object_each(enum sim_kind kind, void (*visit)(struct sim_object *, void *), void *arg);

#endif
