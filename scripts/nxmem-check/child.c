#include "child.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda.h"
#include "keeper.h"
#include "text.h"

/* Seen by both sides. */
struct shared {
    struct verdict_page page;
    struct mechanism mechanisms[MAX_FACTORIES];
    unsigned mechanism_count;
    bool unloadable;
};

/* What a child is to do; never returns when it has a verdict. */
struct job {
    const struct plugin *plugin;
    unsigned mechanism;
    const struct rule *rule;
    void (*run)(const struct job *job, struct shared *shared);
};

static struct shared *shared_page(void) {
    static struct shared *shared;
    if (shared) return shared;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        perror("nxmem-check");
        exit(2);
    }
    return shared;
}

static _Noreturn void be_child(const void *argument, void *page) {
    const struct job *job = argument;
    struct shared *shared = page;
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    dup2(STDERR_FILENO, STDOUT_FILENO); /* what a plugin prints is not part of the report */
    verdict_attach(&shared->page);
    job->run(job, shared);
    passes();
}

static struct outcome judge_end(const struct shared *shared, const struct end *end, unsigned seconds) {
    const struct verdict_page *page = &shared->page;
    struct outcome outcome = {.verdict = FAILED};
    const char *where = page->doing[0] ? page->doing : "nothing yet";

    if (page->verdict != UNFINISHED) {
        outcome.verdict = page->verdict;
        snprintf(outcome.why, sizeof outcome.why, "%s", page->why);
    } else if (!end->in_time) {
        snprintf(outcome.why, sizeof outcome.why, "hangs: no end within %u s (last: %s)", seconds, where);
    } else if (WIFSIGNALED(end->status)) {
        snprintf(outcome.why, sizeof outcome.why, "crashes: signal %d, %s (last: %s)", WTERMSIG(end->status), strsignal(WTERMSIG(end->status)), where);
    } else {
        snprintf(outcome.why, sizeof outcome.why, "ends the process with status %d (last: %s)", WEXITSTATUS(end->status), where);
    }
    return outcome;
}

static struct outcome run(const struct job *job, struct shared *shared) {
    memset(shared, 0, sizeof *shared);
    fflush(stdout);
    struct end end = keeper_run(be_child, job, shared, job->plugin->timeout);
    return judge_end(shared, &end, job->plugin->timeout);
}

/* --- what children do --- */

static struct subject subject;

static void load(const struct job *job, struct shared *shared) {
    char why[400];
    subject.limit_ms = job->plugin->timeout * 1000;
    if (subject_load(&subject, job->plugin->path, why, sizeof why)) return;
    shared->unloadable = true;
    skips("%s", why);
}

static void describe(const NxmemAllocatorFactoryVtable *factory, struct mechanism *ret_mechanism) {
    size_t length;
    snprintf(ret_mechanism->name, sizeof ret_mechanism->name, "(unreadable)");
    if (factory_fault(factory)) return;
    ret_mechanism->device = factory->device;
    snprintf(ret_mechanism->name, sizeof ret_mechanism->name, "(unnamed)");
    if (!factory->name) return;
    length = strnlen((const char *)factory->name, sizeof ret_mechanism->name - 1);
    if (!is_utf8(factory->name, length)) return;
    memcpy(ret_mechanism->name, factory->name, length);
    ret_mechanism->name[length] = '\0';
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)ret_mechanism->name[i] < ' ') ret_mechanism->name[i] = '?';
}

static void enumerate(const struct job *job, struct shared *shared) {
    load(job, shared);
    must_negotiate(&subject, NXMEM_ABI_MINOR);
    must_enumerate(&subject);
    for (uint64_t i = 0; i < subject.factory_count; i++) describe(subject.factories[i], &shared->mechanisms[i]);
    shared->mechanism_count = (unsigned)subject.factory_count;
}

/* Up to the factory; whether its device is here. */
static bool reach_factory(const struct job *job, struct shared *shared) {
    load(job, shared);
    must_negotiate(&subject, NXMEM_ABI_MINOR);
    must_enumerate(&subject);
    NEED(job->mechanism < subject.factory_count, "the mechanism is no longer listed (7.7)");
    const char *fault = factory_fault(subject.factories[job->mechanism]);
    NEED(!fault, "its factory %s (8.4)", fault);
    subject.factory = subject.factories[job->mechanism];
    NEED(subject.factory->device.tier <= NXMEM_TIER_DISK, "tier %u is none (2.3)", subject.factory->device.tier);
    return subject.factory->device.tier != NXMEM_TIER_DEVICE || cuda_enter(subject.factory->device.index);
}

/* Without its device a mechanism may still open, and then serve nothing. */
static void probe(const struct job *job, struct shared *shared) {
    if (reach_factory(job, shared)) return;
    const char *absent = cuda_is_here() ? "the CUDA driver here has no such device" : "there is no CUDA driver here (libcuda.so.1)";
    struct host *host = host_new(subject.agreed.agreed_minor);
    NxmemOpenRequest request = open_request(&subject, subject.agreed.agreed_minor, host);
    struct opened opened;
    struct block block;
    const char *rule;
    NxmemStatus status = try_open(&subject, &request, host, &opened);
    NEED(status.code == NXMEM_STATUS_OK, "%s, and open_allocator answers %s", absent, status_words(&status));
    if (opened_fault(&opened, &rule)) return;
    status = try_allocate(&opened, 1000, USUAL_ALIGN, &block);
    NEED(status.code == NXMEM_STATUS_OK, "%s, and allocate answers %s", absent, status_words(&status));
}

static const char *lacking(uint64_t bits) {
    if (bits & NXMEM_CAPABILITY_VIRTUAL_BACKING) return "VIRTUAL_BACKING";
    if (bits & NXMEM_CAPABILITY_SHARED_MAPPING) return "SHARED_MAPPING";
    return bits & NXMEM_CAPABILITY_DEFERRED_RELEASE ? "DEFERRED_RELEASE" : "STRUCTURED_RELEASE";
}

static void try_rule(const struct job *job, struct shared *shared) {
    const struct rule *rule = job->rule;
    struct opened opened;

    if (rule->scope == MODULE) {
        load(job, shared);
        rule->try(&subject, NULL);
        return;
    }
    reach_factory(job, shared);
    if (rule->scope == FACTORY) {
        rule->try(&subject, NULL);
        return;
    }
    opened = must_open(&subject);
    uint64_t missing = rule->needs & ~opened.slots.capability_flags;
    NEED(missing == 0, "no %s", lacking(missing));
    NEED(!(rule->needs & NXMEM_CAPABILITY_STRUCTURED_RELEASE) || is_structured(&opened), "no release_allocation at this minor");
    rule->try(&subject, &opened);
}

/* --- for the parent --- */

struct outcome child_enumerate(struct plugin *plugin) {
    struct job job = {.plugin = plugin, .run = enumerate};
    struct shared *shared = shared_page();
    struct outcome outcome = run(&job, shared);
    memcpy(plugin->mechanisms, shared->mechanisms, sizeof plugin->mechanisms);
    plugin->mechanism_count = outcome.verdict == PASSED ? shared->mechanism_count : 0;
    if (outcome.verdict == NOT_APPLICABLE && !shared->unloadable) outcome.verdict = FAILED;
    return outcome;
}

struct outcome child_probe(const struct plugin *plugin, unsigned mechanism) {
    struct job job = {.plugin = plugin, .mechanism = mechanism, .run = probe};
    return run(&job, shared_page());
}

struct outcome child_try(const struct plugin *plugin, unsigned mechanism, const struct rule *rule) {
    struct job job = {.plugin = plugin, .mechanism = mechanism, .rule = rule, .run = try_rule};
    return run(&job, shared_page());
}
