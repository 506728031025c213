/* Making and reading the file of a journal. */
#include "journal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"
#include "mem.h"
#include "stack.h"

enum { OUT_OF_THE_WAY = 200 };

static const char magic[16] = "nxmem journal 1";

/* Two builds agree when all this is the same; the version stands beside it. */
static uint64_t layout(void)
{
    const size_t sizes[] = { sizeof(struct nxm_journal), sizeof(struct nxm_block), sizeof(struct nxm_frame),
                             sizeof(struct nxm_misuse), sizeof(void *), NXM_CLASS_COUNT };
    uint64_t h = 14695981039346656037u;

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        h = (h ^ sizes[i]) * 1099511628211u;
    for (const char *s = NXM_LAYOUT; *s != '\0'; s++)
        h = (h ^ (unsigned char)*s) * 1099511628211u;
    return h;
}

/* --- writing ---------------------------------------------------------------------------------------------------- */

static bool begins_as_one(int fd)
{
    char start[sizeof(struct nxm_arena) + sizeof magic];

    return pread(fd, start, sizeof start, 0) == (ssize_t)sizeof start &&
           memcmp(start + sizeof(struct nxm_arena), magic, sizeof magic) == 0;
}

/* By a descriptor that opens nothing: a pipe would notice that somebody looks. */
static bool is_regular(const char *path)
{
    struct stat st;
    int fd = open(path, O_PATH | O_CLOEXEC);

    if (fd < 0)
        return false;
    bool regular = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    close(fd);
    return regular;
}

bool nxm_journal_is_at(const char *path)
{
    int fd = is_regular(path) ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) : -1;
    bool is_one = fd >= 0 && begins_as_one(fd);

    if (fd >= 0)
        close(fd);
    return is_one;
}

/* Another's file is left alone. An earlier journal goes by its name only: its process may still be writing it. */
static int make_way(const char *path, struct nxm_error *ret_error)
{
    struct stat st;
    int fd;

    if (lstat(path, &st) != 0 && errno == ENOENT)
        return NXM_OK;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY);
    bool ours = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
                (st.st_size == 0 || begins_as_one(fd));

    if (fd >= 0)
        close(fd);
    if (ours && unlink(path) == 0)
        return NXM_OK;
    return nxm_error_set(ret_error, NXM_EINVAL, 0, "%s is there and is no journal: name another file", path);
}

static int open_new(const char *path, struct nxm_error *ret_error)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (fd < 0) {
        nxm_error_set(ret_error, NXM_EINVAL, 0, "cannot make %s: %s", path, strerror(errno));
        return fd;
    }
    /* Out of the way: the low numbers are what a program opens next, the standard streams among them. */
    int high = fcntl(fd, F_DUPFD_CLOEXEC, OUT_OF_THE_WAY);
    if (high < 0)
        high = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    close(fd);
    if (high < 0)
        nxm_error_set(ret_error, NXM_EINVAL, 0, "no descriptor left for %s: %s", path, strerror(errno));
    return high;
}

int nxm_journal_begin(const char *path, uint64_t capacity, struct nxm_error *ret_error)
{
    struct nxm_journal *made;
    int fd;

    if (make_way(path, ret_error) != NXM_OK || (fd = open_new(path, ret_error)) < 0)
        return NXM_EINVAL;
    made = (struct nxm_journal *)nxm_arena_new(fd, capacity);
    if (made == NULL || nxm_arena_take(&made->arena, fd, sizeof *made) == NULL) {
        nxm_error_set(ret_error, NXM_ENOMEM, 0, "cannot keep %ju MiB in %s: %s", (uintmax_t)(capacity >> 20), path,
                      made == NULL ? strerror(errno) : "no room");
        if (made != NULL)
            munmap(made, capacity);
        close(fd);
        unlink(path);
        return NXM_ENOMEM;
    }
    made->layout = layout();
    made->pid = getpid();
    nxm_journal_text(made->version, sizeof made->version, NXM_VERSION);
    memcpy(made->magic, magic, sizeof magic); /* last: the record is whole */
    nxm_journal_keep(made);
    nxm_mem_live_in(&made->arena, fd);
    return NXM_OK;
}

/* --- reading ---------------------------------------------------------------------------------------------------- */

static int judge(const struct nxm_journal *head, uint64_t size, struct nxm_error *ret_error)
{
    if (memcmp(head->magic, magic, sizeof magic) != 0)
        return nxm_error_set(ret_error, NXM_EINVAL, 0, "it is no journal");
    if (head->layout != layout())
        return nxm_error_set(ret_error, NXM_EINVAL, 0, "it was written by version %.*s: read it with the nxmem-report of that one",
                             (int)sizeof head->version, head->version);
    if (head->arena.capacity != size || head->arena.base % 4096 != 0 || atomic_load(&head->arena.used) > size)
        return nxm_error_set(ret_error, NXM_EINVAL, 0, "it is damaged or cut short");
    return NXM_OK;
}

int nxm_journal_open(int fd, struct nxm_journal **ret_journal, struct nxm_error *ret_error)
{
    static struct nxm_journal head;
    struct stat st;
    int result;

    if (fstat(fd, &st) != 0 || pread(fd, &head, sizeof head, 0) != (ssize_t)sizeof head)
        return nxm_error_set(ret_error, NXM_EINVAL, 0, "it is no journal");
    result = judge(&head, (uint64_t)st.st_size, ret_error);
    if (result != NXM_OK)
        return result;
    void *wanted = (void *)(uintptr_t)head.arena.base;
    void *at = mmap(wanted, head.arena.capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED_NOREPLACE, fd, 0);
    if (at != wanted)
        return nxm_error_set(ret_error, NXM_EBUSY, 0, "its place in memory, %p, is taken here: try again", wanted);
    *ret_journal = at;
    return NXM_OK;
}

static struct nxm_amount sum_of(const struct nxm_journal *from, enum nxm_journal_sum which)
{
    return (struct nxm_amount){ atomic_load(&from->sums[which].blocks), atomic_load(&from->sums[which].bytes) };
}

static bool add_up(void *report, const struct nxm_block *block)
{
    ((struct nxm_report *)report)->owned_bytes += block->owned;
    ((struct nxm_report *)report)->mapped_bytes += block->mapped;
    return true;
}

static bool add_import(void *report, const struct nxm_block *import)
{
    ((struct nxm_report *)report)->imported.blocks += import->tag; /* how often it was opened */
    return true;
}

/* Each name once: two threads may have noted it at once. */
static void add_name(struct nxm_names *names, const char **list, const char *name)
{
    for (size_t i = 0; i < names->count; i++) {
        if (strcmp(list[i], name) == 0)
            return;
    }
    list[names->count++] = name;
    names->list = list;
}

static void report_names(const struct nxm_journal *from, struct nxm_report *ret_report)
{
    static char texts[2][NXM_NOTED_MAX][NXM_NOTED_TEXT];
    static const char *lists[2][NXM_NOTED_MAX];
    struct nxm_noted noted;

    for (size_t i = 0; nxm_noted_read(&from->unknown, i, &noted); i++) {
        if (!noted.found || !noted.allocates)
            continue;
        nxm_noted_name(&noted, texts[0][i]);
        add_name(&ret_report->unknown, lists[0], texts[0][i]);
    }
    for (size_t i = 0; nxm_noted_read(&from->uncovered, i, &noted); i++) {
        nxm_noted_file(&noted, texts[1][i]);
        add_name(&ret_report->uncovered, lists[1], texts[1][i]);
    }
}

static void report_device_memory(const struct nxm_journal *from, struct nxm_report *ret_report)
{
    static struct nxm_device_memory list[NXM_JOURNAL_DEVICES];

    for (int i = 0; i < NXM_JOURNAL_DEVICES; i++) {
        if (atomic_load(&from->device_memory[i].asked))
            list[ret_report->device_memory_count++] = (struct nxm_device_memory){
                i, atomic_load(&from->device_memory[i].used), atomic_load(&from->device_memory[i].recorded) };
    }
    ret_report->device_memory = list;
}

void nxm_journal_report(struct nxm_journal *from, const struct nxm_suppressions *suppressions,
                        struct nxm_report *ret_report)
{
    static const char *names[NXM_JOURNAL_APIS];
    uint32_t tables = atomic_load(&from->table_count);

    for (uint32_t i = 0; i < from->api_count && i < NXM_JOURNAL_APIS; i++)
        names[i] = from->apis[i];
    if (atomic_load(&from->stacks) != NULL)
        nxm_stack_adopt(atomic_load(&from->stacks), atomic_load(&from->stack_count), atomic_load(&from->stacks_dropped),
                        &from->arena);
    *ret_report = (struct nxm_report){
        .version = from->version, .program = from->program, .pid = from->pid,
        .plugin = from->plugin[0] ? from->plugin : NULL, .mechanism = from->mechanism[0] ? from->mechanism : NULL,
        .tables = from->tables, .table_count = tables, .suppressions = suppressions,
        .api_names = names, .api_count = from->api_count,
        .reclaimed_by_reset = sum_of(from, NXM_SUM_RECLAIMED_BY_RESET),
        .freed_during_exit = sum_of(from, NXM_SUM_FREED_DURING_EXIT),
        .quarantined = sum_of(from, NXM_SUM_QUARANTINED),
        .unknown_frees = sum_of(from, NXM_SUM_UNKNOWN_FREES),
        .freed_out_of_sight = sum_of(from, NXM_SUM_OUT_OF_SIGHT),
        .gate = from->gate, .gate_known = atomic_load(&from->gate_known),
        .gate_extra = from->gate_extra[0] ? from->gate_extra : NULL,
        .waiting_peak_bytes = atomic_load(&from->waiting_peak),
        .misuse = atomic_load(&from->misuse), .misuses = from->misuses, .misuse_count = atomic_load(&from->misuse_count),
    };
    report_names(from, ret_report);
    report_device_memory(from, ret_report);
    for (uint32_t i = 0; i < tables; i++) {
        nxm_blocks_adopt(from->tables[i], &from->arena);
        nxm_blocks_each(from->tables[i], i == from->imports ? add_import : add_up, ret_report);
    }
}
