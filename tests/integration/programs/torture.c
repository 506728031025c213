/* Runs a scenario again and again, each time in a process of its own with one more thing that fails once: the n-th call of one entry
 * point of the driver, whoever makes it, or the n-th time that the shim asks for memory (failing_memory.c). Whatever it is, the
 * program sees that failure or none; what it freed is gone or reported; nothing is used too early; the plugin goes exactly when
 * nothing of it is left.
 *
 *   torture SCENARIO SECONDS REPORTS [whole]      REPORTS: the folder of NXMEM_REPORT=REPORTS/%p; whole: by each code
 *
 * Without the shim the same holds, but for the reports. */
#include "transcript.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/sim/simcuda.h"
#include "torture.h"

enum { SYMBOLS = 1024, CASES = 60000, REPORT_ROOM = 1 << 16 };

/* What a child leaves behind. */
static struct {
    uint64_t calls[SYMBOLS], memory; /* calls of each entry point; requests of the shim for memory */
    uint64_t live;                   /* the driver's bytes at the end */
    uint64_t violations;
    int ended, fired;
} *left;

struct failure { /* symbol -1: memory */
    int symbol;
    uint64_t n;
    int code;
};
static struct failure cases[CASES];
static int case_count, wrong;
static void (*fail_memory)(unsigned long n);
static unsigned long (*memory_asked)(void);

/* --- the child --------------------------------------------------------------------------------------------------- */

static void be_child(void (*scenario)(void), struct failure failure)
{
    alarm(200);
    if (!getenv("TORTURE_VERBOSE"))
        dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
    expected = failure.code;
    if (failure.symbol >= 0 && failure.n)
        sim_fail(sim_symbol((size_t)failure.symbol, NULL), failure.n, failure.code);
    if (failure.symbol < 0 && fail_memory)
        fail_memory(failure.n);
    scenario();
    if (failure.symbol >= 0 && failure.n)
        left->fired = sim_calls(sim_symbol((size_t)failure.symbol, NULL)) >= failure.n;
    if (fail_memory)
        left->memory = memory_asked();
    for (int i = 0; i < SYMBOLS && sim_symbol((size_t)i, NULL); i++)
        left->calls[i] = sim_calls(sim_symbol((size_t)i, NULL));
    left->live = sim_live_bytes("device") + sim_live_bytes("async");
    left->violations = sim_violations();
    left->ended = 1;
    fflush(stdout);
    exit(0);
}

/* --- what must hold of it ------------------------------------------------------------------------------------------ */

static const char *name_of(struct failure failure)
{
    return failure.symbol < 0 ? "memory of the shim" : sim_symbol((size_t)failure.symbol, NULL);
}

static void complain(struct failure failure, const char *what)
{
    if (wrong++ < 10)
        printf("when call %llu of %s answers %d: %s\n", (unsigned long long)failure.n, name_of(failure), failure.code, what);
}

static int read_report(const char *folder, pid_t child, char *ret_report)
{
    char path[4096];
    ssize_t length;

    snprintf(path, sizeof path, "%s/%d", folder, (int)child);
    int fd = open(path, O_RDONLY);
    if (fd < 0)
        return 0;
    length = read(fd, ret_report, REPORT_ROOM - 1);
    ret_report[length > 0 ? length : 0] = '\0';
    close(fd);
    unlink(path);
    return length > 0;
}

static unsigned long long figure(const char *report, const char *key, const char *field)
{
    const char *at = strstr(report, key);

    at = at ? strstr(at, field) : NULL;
    return at ? strtoull(at + strlen(field), NULL, 10) : ~0ull;
}

static void judge_report(struct failure failure, const char *report)
{
    unsigned long long bytes = figure(report, "\"leaked\":", "\"bytes\": ");
    unsigned long long waiting = figure(report, "\"waiting\":", "\"bytes\": ");
    unsigned long long kept = figure(report, "\"quarantined\":", "\"bytes\": ");
    unsigned long long its = figure(report, "\"DEVICE\":", "\"live_blocks\": ");
    int unloaded = strstr(report, "\"unloaded\": true") != NULL, plugin = strstr(report, "\"plugin\": null") == NULL;

    if (left->live > bytes + waiting + kept)
        complain(failure, "the driver holds memory that the report does not know");
    if (waiting > 0)
        complain(failure, "freed memory waits although all work has passed");
    /* Whose memory it is cannot be told of a block for which the driver did not say which context is current. */
    if (figure(report, "\"freed_out_of_sight\":", "\"blocks\": ") != 0 && strcmp(name_of(failure), "cuCtxGetCurrent") != 0)
        complain(failure, "a block went out of sight");
    if (plugin && unloaded && its)
        complain(failure, "the plugin was unloaded under what is left");
    if (plugin && !unloaded && !its && strstr(report, "\"reason\": \"plugin\"") == NULL) /* else its own count says why */
        complain(failure, "the plugin stays although nothing is left");
}

static void judge(struct failure failure, int status, const char *report)
{
    if (!WIFEXITED(status) || (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != UNEXPECTED))
        complain(failure, WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? "the program hangs" : "the program dies");
    else if (WEXITSTATUS(status) == UNEXPECTED)
        complain(failure, "a call answers what the driver never said");
    else if (left->violations)
        complain(failure, "memory was reused too early");
    else if (*report)
        judge_report(failure, report);
    else if (left->live)
        complain(failure, "memory is left, and no report");
}

static void run_one(void (*scenario)(void), struct failure failure, const char *folder)
{
    static char report[REPORT_ROOM];
    int status = -1;

    memset(left, 0, sizeof *left);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        be_child(scenario, failure);
    waitpid(child, &status, 0);
    report[0] = '\0';
    read_report(folder, child, report);
    judge(failure, status, report);
}

/* --- all of them ---------------------------------------------------------------------------------------------------- */

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void plan(int symbol, uint64_t calls, int odd)
{
    for (uint64_t n = 1; n <= calls && case_count < CASES; n++)
        cases[case_count++] = (struct failure){ symbol, n, (int)(n % 2) == odd ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_UNKNOWN };
}

/* From `first` to `end`, spread, so that a short run sees something of all. */
static int try_cases(void (*scenario)(void), int first, int end, double deadline, const char *folder)
{
    int count = end - first, tried = 0;

    for (; tried < count && now() < deadline; tried++)
        run_one(scenario, cases[first + (int)((long)tried * 7919 % count)], folder);
    return tried;
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    void (*scenario)(void) = scenario_named(argv[1]);
    double deadline = now() + atof(argv[2]);
    int whole = argc > 4, first_half = 0;
    void *symbol = dlsym(RTLD_DEFAULT, "failing_memory_at");

    memcpy(&fail_memory, &symbol, sizeof symbol);
    symbol = dlsym(RTLD_DEFAULT, "failing_memory_asked");
    memcpy(&memory_asked, &symbol, sizeof symbol);
    left = mmap(NULL, sizeof *left, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!scenario || left == MAP_FAILED)
        return 2;
    run_one(scenario, (struct failure){ 0, 0, 0 }, argv[3]); /* nothing fails: what is there to fail? */
    if (!left->ended || wrong)
        return puts("the scenario fails by itself"), 1;
    uint64_t calls[SYMBOLS], memory = left->memory;
    memcpy(calls, left->calls, sizeof calls);
    plan(-1, memory, 0);
    for (int odd = 0; odd < 2; odd++) { /* each call fails by one code, then by the other */
        if (odd)
            first_half = case_count;
        for (int i = 0; i < SYMBOLS && sim_symbol((size_t)i, NULL); i++)
            plan(i, calls[i], odd);
    }
    int end = whole ? case_count : first_half;
    int tried = try_cases(scenario, 0, first_half, deadline, argv[3]);
    if (whole)
        tried += try_cases(scenario, first_half, case_count, deadline, argv[3]);
    printf("# %s: %d of %d failures tried\n", argv[1], tried, end);
    return wrong != 0;
}
