#include "log.h"

#include "setting.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LINE = 256, LINES = 1024, WORDS = 2 };

struct call {
    enum sim_fn fn;
    CUresult result;
    uint64_t address;
    const char *keys[WORDS]; /* NULL: no more */
    uint64_t values[WORDS];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct call ring[LINES];
static size_t written; /* calls since the last reset */
static int file = -1;

__attribute__((constructor)) static void open_file(void)
{
    const char *path = sim_setting_text(SIM_SETTING_LOG);
    if (!path) return;
    file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (file < 0) sim_setting_refuse(SIM_SETTING_LOG);
}

static void put(int fd, const char *text, size_t length)
{
    ssize_t n = write(fd, text, length);
    (void)n; /* a full disk must not change what the program under test sees */
}

static int put_word(char *line, int n, const char *key, uint64_t value)
{
    bool handle = strcmp(key, "stream") == 0 || strcmp(key, "handle") == 0;
    return n + snprintf(line + n, LINE - (size_t)n, handle ? " %s=0x%llx" : " %s=%llu", key, (unsigned long long)value);
}

/* Text is made only for those who read it: a call costs its record. */
static int format_call(const struct call *c, char *line)
{
    int n = snprintf(line, LINE, "%s result=%d address=0x%llx", sim_entries[c->fn].symbol, (int)c->result,
                     (unsigned long long)c->address);
    for (int i = 0; i < WORDS && c->keys[i]; i++) n = put_word(line, n, c->keys[i], c->values[i]);
    return n;
}

void sim_log_call(enum sim_fn fn, CUresult result, uint64_t address, const char *key, uint64_t value,
                  const char *key2, uint64_t value2)
{
    const struct call c = { fn, result, address, { key, key2 }, { value, value2 } };
    pthread_mutex_lock(&lock);
    ring[written++ % LINES] = c;
    pthread_mutex_unlock(&lock);
    if (file < 0) return;
    char line[LINE];
    int n = format_call(&c, line);
    line[n++] = '\n';
    put(file, line, (size_t)n);
}

CUresult sim_log_refused(enum sim_fn fn, CUresult result)
{
    static const bool has_lines[SIM_FN_COUNT] = {
#define LOGGED(symbol) [SIM_FN_##symbol] = true,
#include "log.def"
    };
    if (has_lines[fn]) sim_log_plain(fn, result, 0);
    return result;
}

void sim_log_plain(enum sim_fn fn, CUresult result, uint64_t address)
{
    sim_log_call(fn, result, address, NULL, 0, NULL, 0);
}

bool sim_log_line(size_t index, char *ret_text, size_t room)
{
    struct call c = { 0 };
    char line[LINE];
    pthread_mutex_lock(&lock);
    size_t kept = written < LINES ? written : LINES;
    bool found = index < kept;
    if (found) c = ring[(written - kept + index) % LINES];
    pthread_mutex_unlock(&lock);
    if (found) {
        format_call(&c, line);
        snprintf(ret_text, room, "%s", line);
    }
    return found;
}

void sim_log_before_fork(void)
{
    pthread_mutex_lock(&lock);
}

void sim_log_after_fork(void)
{
    pthread_mutex_unlock(&lock);
}

void sim_log_reset(void)
{
    pthread_mutex_lock(&lock);
    written = 0;
    pthread_mutex_unlock(&lock);
}
