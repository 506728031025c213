/* Asks the CUDA driver it finds what documentation leaves open, and prints "name: value" for each question.
 *
 *   facts           every question
 *   facts NAME…     these
 *
 * A question that cannot be answered says "unknown" and why. Needs no kernel, no runtime and no compiler for
 * devices. Exit status 77 where no driver answers. */
#include "facts.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *current_name;

void unknown(const char *why, int code)
{
    printf("%s: unknown (%s: %d)\n", current_name, why, code);
    fflush(stdout);
    _exit(0);
}

/* --- what questions share ------------------------------------------------------------------------------------ */

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){ 0, ms * 1000000 }, NULL);
}

CUstream new_stream(void)
{
    CUstream s;
    MUST(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    return s;
}

static void CUDA_CB wait_for_gate(void *gate)
{
    while (!atomic_load(&((struct gate *)gate)->open)) pause_ms(1);
}

void close_stream(CUstream s, struct gate *g)
{
    atomic_store(&g->open, 0);
    MUST(cuLaunchHostFunc(s, wait_for_gate, g));
}

struct job {
    CUcontext context;
    CUresult (*call)(void *);
    void *arg;
    CUresult result;
    atomic_int done;
};

static void *run(void *arg)
{
    struct job *j = arg;
    j->result = cuCtxSetCurrent(j->context);
    if (j->result == CUDA_SUCCESS) j->result = j->call(j->arg);
    atomic_store(&j->done, 1);
    return NULL;
}

static pthread_t start(struct job *j)
{
    pthread_t t;
    MUST(cuCtxGetCurrent(&j->context));
    if (pthread_create(&t, NULL, run, j) != 0) unknown("no thread", 0);
    return t;
}

bool waits(struct gate *g, CUresult (*call)(void *), void *arg)
{
    struct job j = { .call = call, .arg = arg };
    pthread_t t = start(&j);
    for (int ms = 0; ms < 1000 && !atomic_load(&j.done); ms += 5) pause_ms(5);
    bool waited = !atomic_load(&j.done);
    atomic_store(&g->open, 1);
    pthread_join(t, NULL);
    if (j.result != CUDA_SUCCESS) unknown("the call failed", (int)j.result);
    return waited;
}

CUresult elsewhere(CUresult (*call)(void *), void *arg)
{
    struct job j = { .call = call, .arg = arg };
    pthread_join(start(&j), NULL);
    return j.result;
}

/* --- one question, one process ----------------------------------------------------------------------------------- */

static void in_context(void)
{
    CUcontext c;
    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&c, 0));
    MUST(cuCtxSetCurrent(c));
}

static void answer(const struct question *q)
{
    in_context();
    printf("%s: %d\n", q->name, q->ask());
}

static void answer_matrix(const struct question *q)
{
    (void)q;
    in_context();
    capture_matrix();
}

static void answer_runtime(const struct question *q)
{
    (void)q;
    ask_runtime();
}

/* The driver is never initialised in this process: a forked child may use it. */
static void in_process(const char *name, const struct question *q, void (*how)(const struct question *))
{
    int status;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        current_name = name;
        alarm(30);
        how(q);
        fflush(stdout);
        if (how == answer_runtime) exit(0); /* its answer comes at exit */
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) exit(1);
    if (WIFSIGNALED(status)) printf("%s: unknown (signal %d)\n", name, WTERMSIG(status));
    else if (WEXITSTATUS(status)) printf("%s: unknown (exit status %d)\n", name, WEXITSTATUS(status));
}

static bool wanted(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], name) == 0) return true;
    return argc == 1;
}

static bool driver_answers(void)
{
    int status = 1;
    pid_t child = fork();
    if (child == 0) {
        int version = 0, devices = 0;
        char name[128] = "";
        if (cuInit(0) || cuDeviceGetCount(&devices) || !devices || cuDriverGetVersion(&version)) _exit(1);
        cuDeviceGetName(name, sizeof name, 0);
        printf("driver: %d\ndevice: %s\n", version, name);
        fflush(stdout);
        _exit(0);
    }
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

int main(int argc, char **argv)
{
    const struct question *const subjects[] = { memory_questions, order_questions, capture_questions };
    if (!driver_answers()) {
        fprintf(stderr, "no CUDA driver, or no device\n");
        return 77;
    }
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++)
        for (const struct question *q = subjects[i]; q->name; q++)
            if (wanted(q->name, argc, argv)) in_process(q->name, q, answer);
    if (wanted("runtime_releases", argc, argv)) in_process("runtime_releases", NULL, answer_runtime);
    if (wanted("capture", argc, argv)) in_process("capture", NULL, answer_matrix);
    return 0;
}
