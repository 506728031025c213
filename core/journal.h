/* The journal: everything that the report is made from, kept in a file while the process runs, so that the same report can be
 * made when it was killed. It is no copy: our own tables live in the file (arena.h), and this record says where. Owns the
 * file; made by one thread, before the tables; then any. No locks.
 *
 * The reader is of the same build: it maps the file where it was mapped and looks at the tables as they are.
 */
#ifndef NXM_JOURNAL_H
#define NXM_JOURNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arena.h"
#include "misuse.h"
#include "noted.h"
#include "report.h"
#include "result.h"

enum nxm_journal_sum {
    NXM_SUM_RECLAIMED_BY_RESET,
    NXM_SUM_FREED_DURING_EXIT,
    NXM_SUM_UNKNOWN_FREES,
    NXM_SUM_OUT_OF_SIGHT,
    NXM_SUM_QUARANTINED,
    NXM_SUMS
};

#define NXM_JOURNAL_TABLES 16
#define NXM_JOURNAL_DEVICES 64
#define NXM_JOURNAL_APIS 256
#define NXM_JOURNAL_NAME 48
#define NXM_JOURNAL_PATH 4096

struct nxm_journal {
    struct nxm_arena arena;
    char magic[16];
    uint64_t layout; /* of everything that lies in the file */
    char version[NXM_JOURNAL_NAME];
    int pid;
    _Atomic int ended; /* the process wrote its own report */
    char program[NXM_JOURNAL_PATH], plugin[NXM_JOURNAL_PATH], mechanism[256];
    struct nxm_blocks *tables[NXM_JOURNAL_TABLES];
    _Atomic uint32_t table_count;
    uint32_t imports; /* number of the table of imports */
    _Atomic(void *) stacks; /* stack.h */
    _Atomic uint32_t stack_count;
    _Atomic uint64_t stacks_dropped;
    _Atomic uint64_t misuse;
    _Atomic uint64_t waiting_peak;
    struct {
        _Atomic uint64_t blocks, bytes;
    } sums[NXM_SUMS];
    struct nxm_gate gate; /* the verdict, once there is one */
    char gate_extra[64];
    _Atomic int gate_known;
    struct nxm_misuse misuses[NXM_MISUSES_MAX];
    _Atomic uint32_t misuse_count;
    struct nxm_noted_table unknown, uncovered;
    struct {
        _Atomic int asked;
        _Atomic uint64_t used, recorded;
    } device_memory[NXM_JOURNAL_DEVICES];
    uint32_t api_count;
    char apis[NXM_JOURNAL_APIS][NXM_JOURNAL_NAME];
};

/* Makes the file (one that is there must be a journal, or empty) and, from then on, nxm_mem_map_kept take from it. On failure says why in
 * *ret_error, and nothing has changed: NXM_EINVAL (path), NXM_ENOMEM (no room). */
int nxm_journal_begin(const char *path, uint64_t capacity, struct nxm_error *ret_error);

struct nxm_journal *nxm_journal(void); /* NULL: there is none */
void nxm_journal_keep(struct nxm_journal *journal); /* for its maker: this is the one */

/* Whether a journal lies there, of this process or another: what shortens it ends who writes it. */
bool nxm_journal_is_at(const char *path);

/* No-ops without a journal. */
void nxm_journal_gate(const struct nxm_gate *gate, const char *extra);
void nxm_journal_ended(void);
void nxm_journal_add(enum nxm_journal_sum which, uint64_t bytes);
void nxm_journal_device_memory(const struct nxm_device_memory *memory);
void nxm_journal_text(char *ret_field, size_t capacity, const char *s);

/* --- reading ------------------------------------------------------------------------------------------------------- */

/* Maps a journal, privately, for the life of the process. NXM_EINVAL: no journal, damaged, of another build; or, NXM_EBUSY, its
 * place in memory is taken. */
int nxm_journal_open(int fd, struct nxm_journal **ret_journal, struct nxm_error *ret_error);

/* The report as its process would have written it, without what the plugin said. `suppressions` as in report.h. */
void nxm_journal_report(struct nxm_journal *journal, const struct nxm_suppressions *suppressions,
                        struct nxm_report *ret_report);

#endif
