/* Runs every planted fault and its twin over many seeds, and says how many were caught and how many twins were accused.
 *
 *   test_planted [--seeds N] [--from SEED] [--seconds S] [--only NAME]
 *
 * Wants each fault caught under 99% of the seeds, and no twin accused under any. It stops after --seconds, having
 * done at least 100 seeds. Without arguments: 1,000 seeds in 40 s, or PLANTED_SEEDS of them without limit. */
#include "planted/plant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PLANTS_MAX = 96, LEAST_SEEDS = 100 };

struct score {
    const struct plant *plant;
    unsigned caught, accused, leaked;
    unsigned missed_seed, accused_seed; /* the first of each */
    char accused_of[64];
};

static struct score scores[PLANTS_MAX];
static unsigned plant_count;
static uint64_t random_state;

/* --- for the plants ------------------------------------------------------------------------------------------------ */

void plant_must(int result, const char *call, const char *file, int line)
{
    if (result == CUDA_SUCCESS) return;
    fprintf(stderr, "%s:%d: %s: %d\n", file, line, call, result);
    exit(2);
}

unsigned plant_random(unsigned below)
{
    random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)(random_state >> 33) % below;
}

CUstream plant_stream(void)
{
    CUstream s;
    must(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    return s;
}

CUevent plant_event(void)
{
    CUevent e;
    must(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    return e;
}

/* No host functions: what they may tell the program, the oracle must take it to know. */
void plant_noise(CUstream s)
{
    for (unsigned n = plant_random(4); n; n--) {
        CUevent e = plant_event();
        must(cuEventRecord(e, s));
        must(cuEventDestroy(e));
    }
}

/* --- one run --------------------------------------------------------------------------------------------------------- */

static void begin(unsigned seed)
{
    CUcontext c;
    sim_seed(0);
    must(cuDevicePrimaryCtxRetain(&c, 0));
    must(cuCtxSetCurrent(c));
    random_state = seed;
    sim_reset();
    sim_seed(seed);
}

static void end(void)
{
    sim_release_all();
    must(cuDevicePrimaryCtxReset(0));
    must(cuCtxSetCurrent(NULL));
}

/* Any finding at all; NULL: none. */
static const char *any_finding(void)
{
    const char *code;
    for (size_t i = 0; (code = sim_finding_kind(i)); i++)
        if (sim_findings(code)) return code;
    return NULL;
}

static bool has_finding(const char *code)
{
    return strcmp(code, "leak") == 0 ? sim_leaks() > 0 : sim_findings(code) > 0;
}

static void run_fault(struct score *s, unsigned seed)
{
    begin(seed);
    s->plant->run(true);
    must(cuCtxSynchronize());
    if (has_finding(s->plant->code)) s->caught++;
    else if (!s->missed_seed) s->missed_seed = seed;
    end();
}

static void run_twin(struct score *s, unsigned seed)
{
    begin(seed);
    s->plant->run(false);
    must(cuCtxSynchronize());
    const char *code = any_finding();
    if (!code && sim_leaks()) code = "leak";
    if (code) {
        if (!s->accused++) s->accused_seed = seed;
        snprintf(s->accused_of, sizeof s->accused_of, "%s", code);
    }
    end();
}

/* --- all of them ------------------------------------------------------------------------------------------------------- */

static void collect(const struct plant *list, const char *only)
{
    for (; list->name; list++) {
        if (only && strcmp(only, list->name) != 0) continue;
        if (plant_count == PLANTS_MAX) exit(2);
        scores[plant_count++].plant = list;
    }
}

static int report(unsigned seeds, unsigned wanted)
{
    int failures = 0;
    printf("%8s %-36s %-20s %15s %15s\n", "", "planted", "finding", "caught", "twin accused");
    for (unsigned i = 0; i < plant_count; i++) {
        const struct score *s = &scores[i];
        bool bad = s->caught * 100ull < seeds * 99ull || s->accused;
        printf("%-8s %-36s %-20s %7u /%7u %7u /%7u\n", bad ? "not ok -" : "ok -", s->plant->name, s->plant->code, s->caught,
               seeds, s->accused, seeds);
        if (s->missed_seed) printf("    missed first under seed %u\n", s->missed_seed);
        if (s->accused) printf("    twin accused of %s first under seed %u\n", s->accused_of, s->accused_seed);
        failures += bad;
    }
    if (seeds < wanted) printf("time is up: %u of %u seeds\n", seeds, wanted);
    printf("%u passed, %d failed\n", plant_count - (unsigned)failures, failures);
    return failures || !seeds || !plant_count;
}

int main(int argc, char **argv)
{
    const char *many = getenv("PLANTED_SEEDS");
    unsigned seeds = many ? (unsigned)atoi(many) : 1000, from = 1, done = 0;
    long seconds = many ? 0 : 40;
    const char *only = NULL;
    if (!getenv("SIMCUDA_QUIET")) { /* read when the driver was loaded */
        setenv("SIMCUDA_QUIET", "1", 1);
        setenv("SIMCUDA_DEVICES", "2", 1);
        execv("/proc/self/exe", argv);
    }
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seeds") == 0) seeds = (unsigned)atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--from") == 0) from = (unsigned)atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--seconds") == 0) seconds = atol(argv[i + 1]);
        else if (strcmp(argv[i], "--only") == 0) only = argv[i + 1];
        else return fprintf(stderr, "test_planted: unknown option %s\n", argv[i]), 2;
    }
    collect(order_plants, only);
    collect(flag_plants, only);
    collect(memory_plants, only);
    collect(misuse_plants, only);
    collect(random_plants, only);
    must(cuInit(0));
    time_t stop = time(NULL) + seconds;
    for (; done < seeds && (!seconds || done < LEAST_SEEDS || time(NULL) < stop); done++)
        for (unsigned i = 0; i < plant_count; i++) {
            run_fault(&scores[i], from + done);
            run_twin(&scores[i], from + done);
        }
    return report(done, seeds);
}
