#include "host.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"
#include "verdict.h"

static NxmemStatus answer(uint32_t code, const char *words) {
    NxmemStatus status;
    memset(&status, 0, sizeof status);
    status.code = code;
    status.message_len = (uint32_t)strlen(words);
    memcpy(status.message, words, status.message_len);
    return status;
}

__attribute__((format(printf, 3, 4))) static void note(struct host *host, enum host_offence offence, const char *format, ...) {
    va_list arguments;
    if (host->offended[offence]) return;
    host->offended[offence] = true;
    va_start(arguments, format);
    vsnprintf(host->words[offence], sizeof host->words[offence], format, arguments);
    va_end(arguments);
}

static struct host_release *find(struct host *host, uint64_t id) {
    for (unsigned i = 0; i < host->count; i++)
        if (host->releases[i].id == id) return &host->releases[i];
    return NULL;
}

static void run_hook(struct host *host) {
    void (*hook)(void *);
    pthread_mutex_lock(&host->lock);
    hook = host->hook;
    host->hook = NULL;
    if (host->quiet) host->calls_in_quiet++;
    pthread_mutex_unlock(&host->lock);
    if (hook) hook(host->hook_argument);
}

static NxmemStatus request_reclaim(void *host_ctx, const NxmemReclaimRequest *request, uint64_t *reclaimed_bytes) {
    struct host *host = host_ctx;
    if (!host || !request || !reclaimed_bytes) return answer(NXMEM_STATUS_INVALID_ARGUMENT, "a null pointer");
    *reclaimed_bytes = 0;
    run_hook(host);
    pthread_mutex_lock(&host->lock);
    host->reclaims++;
    host->reserved |= request->reserved;
    host->last_reclaim = *request;
    uint32_t code = host->reclaim_answer;
    pthread_mutex_unlock(&host->lock);
    return answer(code, code ? "this host gives nothing back" : "");
}

static void judge_order(struct host *host, const struct host_release *release, const NxmemReleaseCompletion *completion) {
    for (unsigned i = 0; host->in_sequence && i < host->count && &host->releases[i] != release; i++)
        if (!host->releases[i].completed)
            note(host, OFFENCE_ORDER, "the release of id %llu was queued later than that of %llu and completed sooner",
                 (unsigned long long)release->id, (unsigned long long)host->releases[i].id);
    if (release->given && release->given_ticket != completion->ticket)
        note(host, OFFENCE_TICKET, "id %llu got ticket %llu and was completed under %llu", (unsigned long long)release->id,
             (unsigned long long)release->given_ticket, (unsigned long long)completion->ticket);
}

static void judge_outcome(struct host *host, const struct host_release *release, const NxmemReleaseCompletion *completion) {
    const NxmemReleaseOutcome *outcome = &completion->outcome;
    if (completion->struct_size < sizeof *completion || outcome->struct_size < sizeof *outcome)
        note(host, OFFENCE_BYTES, "a completion that says it is %u bytes, its outcome %u", completion->struct_size, outcome->struct_size);
    if (outcome->state > NXMEM_RELEASE_FAILED)
        note(host, OFFENCE_STATE, "a completion with state 0x%x, which is none of the table", outcome->state);
    if (outcome->state == NXMEM_RELEASE_COMPLETE && outcome->residual_owned_bytes != 0)
        note(host, OFFENCE_BYTES, "COMPLETE, and a residue of %llu bytes", (unsigned long long)outcome->residual_owned_bytes);
    if (outcome->state == NXMEM_RELEASE_FAILED && (outcome->unmapped_bytes != 0 || outcome->residual_owned_bytes != 0))
        note(host, OFFENCE_BYTES, "FAILED, and bytes that went");
    if (outcome->state == NXMEM_RELEASE_COMPLETE &&
        (outcome->allocation_bytes < release->bytes || outcome->allocation_bytes > release->limit))
        note(host, OFFENCE_BYTES, "an allocation of %llu bytes completed as one of %llu", (unsigned long long)release->bytes,
             (unsigned long long)outcome->allocation_bytes);
    if (outcome->unmapped_bytes > release->limit)
        note(host, OFFENCE_BYTES, "%llu bytes credited for an allocation of %llu", (unsigned long long)outcome->unmapped_bytes,
             (unsigned long long)release->bytes);
}

/* Under the lock. */
static NxmemStatus take(struct host *host, const NxmemReleaseCompletion *completion) {
    struct host_release *release = find(host, completion->allocation_id);
    if (host->mechanism_id != 0 && completion->mechanism_id != host->mechanism_id) {
        note(host, OFFENCE_MECHANISM, "mechanism %llu completed under id %llu", (unsigned long long)host->mechanism_id,
             (unsigned long long)completion->mechanism_id);
        return answer(NXMEM_STATUS_WRONG_MECHANISM, "another mechanism's");
    }
    if (!release) {
        note(host, OFFENCE_STRANGER, "id %llu was completed and never queued", (unsigned long long)completion->allocation_id);
        return answer(NXMEM_STATUS_UNKNOWN_ALLOCATION, "not queued");
    }
    if (release->completed) {
        note(host, OFFENCE_TWICE, "id %llu was completed twice", (unsigned long long)completion->allocation_id);
        return answer(NXMEM_STATUS_UNKNOWN_ALLOCATION, "already completed");
    }
    judge_order(host, release, completion);
    judge_outcome(host, release, completion);
    release->completed = true;
    release->told_ticket = completion->ticket;
    release->state = completion->outcome.state;
    host->completed++;
    if (host->refuse_from != 0 && host->completed >= host->refuse_from && host->completed < host->refuse_from + host->refuse_count) {
        host->refused++;
        return answer(NXMEM_STATUS_CALLBACK_FAILED, "this host refuses the completion");
    }
    return answer(NXMEM_STATUS_OK, "");
}

static NxmemStatus release_completed(void *host_ctx, const NxmemReleaseCompletion *completion) {
    struct host *host = host_ctx;
    if (!host) return answer(NXMEM_STATUS_INVALID_ARGUMENT, "a null pointer");
    run_hook(host);
    if (host->witness) host->witness(host->witness_argument);
    pthread_mutex_lock(&host->lock);
    if (!completion) note(host, OFFENCE_STRANGER, "a completion is NULL");
    if (!pthread_equal(host->owner, pthread_self())) host->from_threads = true;
    if (completion) host->reserved |= completion->reserved;
    NxmemStatus status = completion ? take(host, completion) : answer(NXMEM_STATUS_INVALID_ARGUMENT, "a null pointer");
    pthread_mutex_unlock(&host->lock);
    return status;
}

struct host *host_new(uint32_t minor) {
    struct host *host = calloc(1, sizeof *host);
    if (!host) skips("this machine has no memory left");
    pthread_mutex_init(&host->lock, NULL);
    host->table = (NxmemHostCallbacks){.struct_size = sizeof host->table,
                                       .abi_minor = minor,
                                       .host_ctx = host,
                                       .request_reclaim = request_reclaim,
                                       .release_completed = release_completed};
    host->reclaim_answer = NXMEM_STATUS_OK; /* with 0 bytes: legal, and nobody's reason to fail */
    host->in_sequence = true;
    host->owner = pthread_self();
    return host;
}

void host_expect(struct host *host, uint64_t id, uint64_t bytes, uint64_t limit) {
    pthread_mutex_lock(&host->lock);
    if (host->count == HOST_RELEASES) skips("more releases than this tool counts");
    host->releases[host->count++] = (struct host_release){.id = id, .bytes = bytes, .limit = limit};
    pthread_mutex_unlock(&host->lock);
}

void host_given(struct host *host, uint64_t id, uint64_t ticket) {
    pthread_mutex_lock(&host->lock);
    struct host_release *release = find(host, id);
    release->given = true;
    release->given_ticket = ticket;
    if (release->completed && release->told_ticket != ticket)
        note(host, OFFENCE_TICKET, "id %llu was completed under ticket %llu and got %llu", (unsigned long long)id,
             (unsigned long long)release->told_ticket, (unsigned long long)ticket);
    pthread_mutex_unlock(&host->lock);
}

void host_forget(struct host *host, uint64_t id) {
    pthread_mutex_lock(&host->lock);
    struct host_release *release = find(host, id);
    if (release && !release->completed) *release = host->releases[--host->count];
    pthread_mutex_unlock(&host->lock);
}

bool host_completed(struct host *host, uint64_t id, uint32_t *ret_state) {
    pthread_mutex_lock(&host->lock);
    struct host_release *release = find(host, id);
    bool completed = release && release->completed;
    if (completed) *ret_state = release->state;
    pthread_mutex_unlock(&host->lock);
    return completed;
}

unsigned host_outstanding(struct host *host) {
    pthread_mutex_lock(&host->lock);
    unsigned outstanding = 0;
    for (unsigned i = 0; i < host->count; i++) outstanding += !host->releases[i].completed;
    pthread_mutex_unlock(&host->lock);
    return outstanding;
}
