#include "log.h"

#include "block.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE = 256, LINES = 1024 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char ring[LINES][LINE];
static size_t written; /* lines since the last reset */
static int file = -1;
static bool quiet;
static atomic_ullong violations, misuses;

__attribute__((constructor)) static void open_file(void)
{
    const char *path = getenv("SIMCUDA_LOG");
    quiet = getenv("SIMCUDA_QUIET") != NULL;
    if (path) file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
}

static void put(int fd, const char *text, size_t length)
{
    ssize_t n = write(fd, text, length);
    (void)n; /* a full disk must not change what the program under test sees */
}

static int begin_line(char *line, enum sim_fn fn, CUresult result, uint64_t address)
{
    return snprintf(line, LINE, "%s result=%d address=0x%llx", sim_entries[fn].symbol, (int)result,
                    (unsigned long long)address);
}

/* `line` has room for LINE bytes; a longer text was cut by its writer. */
static void end_line(char *line, int n)
{
    if (n > LINE - 2) n = LINE - 2;
    line[n] = '\0';
    pthread_mutex_lock(&lock);
    memcpy(ring[written++ % LINES], line, (size_t)n + 1);
    pthread_mutex_unlock(&lock);
    line[n] = '\n';
    if (file >= 0) put(file, line, (size_t)n + 1);
}

void sim_log_plain(enum sim_fn fn, CUresult result, uint64_t address)
{
    char line[LINE];
    end_line(line, begin_line(line, fn, result, address));
}

void sim_log_call(enum sim_fn fn, CUresult result, uint64_t address, const char *format, ...)
{
    char line[LINE];
    va_list args;
    int n = begin_line(line, fn, result, address);
    line[n++] = ' ';
    va_start(args, format);
    n += vsnprintf(line + n, sizeof line - (size_t)n, format, args);
    va_end(args);
    end_line(line, n);
}

static void print(const char *line, int n)
{
    if (!quiet && n > 0) put(STDERR_FILENO, line, (size_t)n < LINE * 2 ? (size_t)n : LINE * 2 - 1);
}

static const char *name_of(enum sim_fn fn)
{
    return fn < SIM_FN_COUNT ? sim_entries[fn].symbol : "nobody";
}

void sim_log_violation_by(const struct sim_block *b, enum sim_fn fn, const char *what)
{
    char line[LINE * 2];
    atomic_fetch_add(&violations, 1);
    int n = snprintf(line, sizeof line, "simcuda: violation: %s: %s: %s block 0x%llx of %llu bytes (id %llu, made by %s, freed by %s)\n",
                     name_of(fn), what, sim_block_kind_name(b->kind), (unsigned long long)b->range.start,
                     (unsigned long long)b->size, (unsigned long long)b->id, name_of(b->born), name_of(b->freed));
    print(line, n);
}

void sim_log_violation(const struct sim_block *b, const char *what)
{
    sim_log_violation_by(b, b->freed, what);
}

void sim_log_violation_at(uint64_t address, enum sim_fn fn, const char *what)
{
    char line[LINE * 2];
    atomic_fetch_add(&violations, 1);
    print(line, snprintf(line, sizeof line, "simcuda: violation: %s: %s: address 0x%llx\n", name_of(fn), what,
                         (unsigned long long)address));
}

void sim_log_misuse(enum sim_fn fn, const char *what)
{
    char line[LINE * 2];
    atomic_fetch_add(&misuses, 1);
    print(line, snprintf(line, sizeof line, "simcuda: misuse: %s %s\n", name_of(fn), what));
}

uint64_t sim_log_violation_count(void)
{
    return atomic_load(&violations);
}

uint64_t sim_log_misuse_count(void)
{
    return atomic_load(&misuses);
}

bool sim_log_line(size_t index, char *ret_text, size_t room)
{
    pthread_mutex_lock(&lock);
    size_t kept = written < LINES ? written : LINES;
    bool found = index < kept;
    if (found) snprintf(ret_text, room, "%s", ring[(written - kept + index) % LINES]);
    pthread_mutex_unlock(&lock);
    return found;
}

void sim_log_reset(void)
{
    pthread_mutex_lock(&lock);
    written = 0;
    pthread_mutex_unlock(&lock);
    atomic_store(&violations, 0);
    atomic_store(&misuses, 0);
}
