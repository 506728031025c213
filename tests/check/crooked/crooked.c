/* The exports of the crooked plugin, and opening. */
#include "crooked.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
EXPORT NxmemStatus NxmemNegotiate(const NxmemNegotiateRequest *request, NxmemNegotiateResponse *response);
EXPORT NxmemStatus NxmemCreateAllocatorFactories(const NxmemAllocatorFactoryVtable **factories, uint64_t max_factories, uint64_t *count);
EXPORT NxmemStatus NxmemQueryUnloadReadiness(NxmemUnloadReport *report);

enum crook crook;
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
struct block *blocks, *queue;
struct prefix *prefixes;
NxmemUnloadReport alive;
bool factory_gone;
const NxmemHostCallbacks *last_callbacks;
static bool released; /* any allocator was */

static const char *const words[] = {
#define CROOK(identifier, word, rules, help) word,
#include "crooked.def"
#undef CROOK
};

__attribute__((constructor)) static void choose(void) {
    const char *wanted = getenv("CROOKED");
    if (!wanted) return;
    for (unsigned i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i], wanted) == 0) crook = (enum crook)i;
    if (strcmp(words[crook], wanted) != 0) abort();
}

NxmemStatus say(uint32_t code, const char *text) {
    NxmemStatus status;
    memset(&status, 0, sizeof status);
    status.code = code;
    status.message_len = (uint32_t)strlen(text);
    memcpy(status.message, text, status.message_len);
    if (code != NXMEM_STATUS_OK && WHEN(TEXT_UNENDED)) status.message[200] = 'x';
    if (code != NXMEM_STATUS_OK && WHEN(TEXT_CUT)) status.message[status.message_len - 1] = 0xC3;
    return status;
}

void reply(void *target, const void *answer, uint32_t size, bool overrun) {
    uint32_t room;
    memcpy(&room, target, sizeof room);
    memcpy(target, answer, overrun || room > size ? size : room);
    if (room < size && !overrun && room >= sizeof room) memcpy(target, &room, sizeof room);
}

/* --- negotiation --- */

static const NxmemNegotiateRequest *negotiated; /* kept, where that is the fault */

static NxmemStatus agree(const NxmemNegotiateRequest *request, NxmemNegotiateResponse *answer) {
    const NxmemVersionRange *host = &request->host_range;
    uint32_t minor = host->minor_max < 1 && !WHEN(MINOR_FIXED) ? host->minor_max : 1;
    uint64_t offered = WHEN(SUBSET_IGNORED) ? CAPABILITIES : request->host_capability_flags & CAPABILITIES;

    bool above = host->major_min > 1, below = host->major_max < 1;
    if (WHEN(RANGE_BACKWARDS)) {
        above = above && host->major_max > 1;
        below = below && host->major_min < 1;
    }
    if ((above || below) && !WHEN(ANY_MAJOR))
        return say(NXMEM_STATUS_VERSION_MISMATCH, "speaks major 1");
    if (minor < host->minor_min && !WHEN(MINOR_FIXED)) return say(NXMEM_STATUS_VERSION_MISMATCH, "speaks minors 0 and 1");
    if (!(request->host_capability_flags & 1) && !WHEN(ALLOCATOR_UNASKED)) return say(NXMEM_STATUS_UNSUPPORTED_CAPABILITY, "allocates");
    answer->agreed_major = 1;
    answer->agreed_minor = minor;
    answer->capability_flags = minor >= 1 ? offered : offered & ~NXMEM_CAPABILITY_STRUCTURED_RELEASE;
    return say(NXMEM_STATUS_OK, "");
}

NxmemStatus NxmemNegotiate(const NxmemNegotiateRequest *request, NxmemNegotiateResponse *response) {
    NxmemNegotiateResponse answer = {.struct_size = sizeof answer, .plugin_range = {1, 1, 0, 1}};
    NxmemStatus status;

    negotiated = request;
    if (!WHEN(NULL_CRASH) && (!request || !response)) return say(NXMEM_STATUS_INVALID_ARGUMENT, "a null pointer");
    if (request->struct_size < sizeof *request && !WHEN(SHORT_READ)) {
        status = say(NXMEM_STATUS_SHORT_STRUCT, "a short request");
    } else if (request->struct_size != sizeof *request && WHEN(EXACT_REQUEST)) {
        status = say(NXMEM_STATUS_SHORT_STRUCT, "not my size");
    } else {
        status = agree(request, &answer);
    }
    if (status.code != NXMEM_STATUS_OK && WHEN(RANGE_UNTOLD)) memset(&answer.plugin_range, 0, sizeof answer.plugin_range);
    reply(response, &answer, sizeof answer, WHEN(RESPONSE_OVERRUN));
    return status;
}

/* --- factories --- */

static void release_factory(void *ctx) {
    (void)ctx;
    factory_gone = true;
}

static const NxmemAllocatorFactoryVtable spoilt = {sizeof factory,    1, (const uint8_t *)"crooked", {NXMEM_TIER_HOST, 0}, UINT64_C(1) << 40 | 1, NULL,
                                                   open_allocator, release_factory};
const NxmemAllocatorFactoryVtable factory = {sizeof factory,    1, (const uint8_t *)"crooked", {NXMEM_TIER_HOST, 0}, CAPABILITIES, NULL,
                                             open_allocator, release_factory};

NxmemStatus NxmemCreateAllocatorFactories(const NxmemAllocatorFactoryVtable **factories, uint64_t max_factories, uint64_t *count) {
    static bool listed;
    *count = WHEN(COUNT_LEFT) ? 1 : 0;
    if (max_factories < 1 && !WHEN(ROOM_IGNORED)) return say(NXMEM_STATUS_INVALID_ARGUMENT, "room for one is needed");
    if (listed && WHEN(LISTED_ONCE)) return say(NXMEM_STATUS_BUSY, "listed already");
    listed = true;
    if (WHEN(NEGOTIATION_KEPT)) looked_at = negotiated->host_capability_flags;
    factories[0] = WHEN(FACTORY_BIT) ? &spoilt : &factory;
    *count = max_factories < 1 ? 0 : 1;
    return say(NXMEM_STATUS_OK, "");
}

NxmemStatus NxmemQueryUnloadReadiness(NxmemUnloadReport *report) {
    NxmemUnloadReport now;
    pthread_mutex_lock(&lock);
    now = alive;
    pthread_mutex_unlock(&lock);
    now.struct_size = sizeof now;
    now.live_views = WHEN(VIEWS_UNCOUNTED) ? 0 : now.live_views + (WHEN(BUSY_IDLE) ? 1 : 0);
    if (WHEN(QUEUE_UNCOUNTED) || (WHEN(QUEUE_UNREFERENCED) && released)) now.queued_releases = 0;
    reply(report, &now, sizeof now, WHEN(REPORT_OVERRUN));
    return say(NXMEM_STATUS_OK, "");
}

/* --- opening --- */

static void retain(void *ctx) {
    struct allocator *self = ctx;
    pthread_mutex_lock(&lock);
    self->references++;
    pthread_mutex_unlock(&lock);
}

/* Under the lock. The state itself is kept, so that what a fault leaves can be seen and not only crash. */
void unref(struct allocator *self) {
    if (--self->references > 0 && !WHEN(DIES_AT_ONCE)) return;
    if (!WHEN(NEVER_ZERO)) alive.live_allocators -= alive.live_allocators > 0;
}

static void *run_on(void *argument) {
    (void)argument;
    usleep(10000);
    return NULL;
}

static void release(void *ctx) {
    struct allocator *self = ctx;
    uint64_t retired;
    if (WHEN(COMPLETES_ON_RELEASE)) retire(self, UINT64_MAX, &retired);
    if (WHEN(THREAD_LEFT)) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, run_on, NULL) == 0) pthread_detach(thread);
    }
    pthread_mutex_lock(&lock);
    released = true;
    unref(self);
    pthread_mutex_unlock(&lock);
}

/* Out of the group, the session and the family of whoever loaded it. */
static void leave_child_apart(void) {
    pid_t pid = fork();
    if (pid == 0) {
        setsid();
        if (fork() != 0) _exit(0);
        alarm(200); /* a test gives up sooner */
        for (;;) pause();
    }
    waitpid(pid, NULL, 0);
}

static void copy_callbacks(struct allocator *self, const NxmemHostCallbacks *callbacks) {
    if (!callbacks && !WHEN(CALLBACKS_NEEDED)) return;
    last_callbacks = callbacks;
    uint32_t size = callbacks->struct_size < sizeof self->callbacks && !WHEN(CALLBACKS_WHOLE) ? callbacks->struct_size : sizeof self->callbacks;
    memcpy(&self->callbacks, callbacks, size);
}

static bool refused(const NxmemOpenRequest *request, NxmemStatus *ret_status) {
    uint64_t offered = request->abi_minor >= 1 ? CAPABILITIES : CAPABILITIES & ~NXMEM_CAPABILITY_STRUCTURED_RELEASE;
    *ret_status = say(NXMEM_STATUS_OK, "");
    if (!WHEN(ANY_DEVICE) && (request->device.tier != NXMEM_TIER_HOST || request->device.index != 0))
        *ret_status = say(NXMEM_STATUS_WRONG_DEVICE, "serves host 0");
    else if (request->required_capability_flags & ~offered)
        *ret_status = say(NXMEM_STATUS_UNSUPPORTED_CAPABILITY, "cannot do that");
    else if (request->required_capability_flags && WHEN(CLAIM_REFUSED))
        *ret_status = say(NXMEM_STATUS_UNSUPPORTED_CAPABILITY, "will not do that");
    else if (request->abi_minor == 0 && WHEN(MINOR_0_REFUSED))
        *ret_status = say(NXMEM_STATUS_NOT_IMPLEMENTED, "too old");
    return ret_status->code != NXMEM_STATUS_OK;
}

NxmemStatus open_allocator(void *ctx, const NxmemOpenRequest *request, const NxmemAllocatorVtable **vtable) {
    static uint64_t last_id;
    struct allocator *self;
    NxmemStatus status;
    (void)ctx;

    pthread_mutex_lock(&lock);
    if (refused(request, &status)) {
        alive.live_allocators += WHEN(OPEN_LEAKS) ? 1 : 0;
        pthread_mutex_unlock(&lock);
        return status;
    }
    self = calloc(1, sizeof *self);
    self->references = 1;
    if (WHEN(CHILD_LEFT) && fork() == 0) {
        alarm(30);
        for (;;) pause();
    }
    if (WHEN(CHILD_APART) || WHEN(CHILD_APART_HANGS)) leave_child_apart();
    self->request = request;
    copy_callbacks(self, request->callbacks);
    self->slots = (NxmemAllocatorVtable){.struct_size = request->abi_minor >= 1 ? 128 : 120,
                                         .abi_minor = request->abi_minor >= 1 ? 1 : 0,
                                         .mechanism_id = 1000 * ++last_id,
                                         .device = {NXMEM_TIER_HOST, 0},
                                         .capability_flags = CAPABILITIES,
                                         .name = (const uint8_t *)"crooked",
                                         .ctx = self,
                                         .retain = retain,
                                         .release = release};
    if (request->abi_minor == 0 && !WHEN(STRUCTURED_EARLY)) self->slots.capability_flags &= ~NXMEM_CAPABILITY_STRUCTURED_RELEASE;
    fill_memory(self);
    fill_queue(self);
    fill_backing(self);
    fill_mapping(self);
    alive.live_allocators++;
    pthread_mutex_unlock(&lock);
    *vtable = &self->slots;
    return status;
}
