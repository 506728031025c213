#include "misuse.h"

#include <stdbool.h>
#include <string.h>

#include "journal.h"
#include "lock.h"

static struct nxm_lock lock = NXM_LOCK_INIT(NXM_RANK_MISUSE);
static struct nxm_misuse noted[NXM_MISUSES_MAX];
static size_t note_count;

const char *nxm_misuse_words(enum nxm_misuse_kind kind)
{
    static const char *const words[] = {
        [NXM_MISUSE_TWICE] = "freed twice",
        [NXM_MISUSE_NOT_ALLOCATED] = "not allocated",
        [NXM_MISUSE_INSIDE] = "inside a block",
        [NXM_MISUSE_OTHER_KIND] = "freed by a call for another kind of memory",
        [NXM_MISUSE_PLUGINS] = "the plugin's own memory, not a block",
    };

    return (size_t)kind < sizeof words / sizeof *words ? words[kind] : "unknown";
}

static bool is_same(const struct nxm_misuse *a, const struct nxm_misuse *b)
{
    return a->kind == b->kind && a->stack == b->stack && a->allocated == b->allocated && a->freed == b->freed;
}

static void copy_to_journal(void)
{
    struct nxm_journal *journal = nxm_journal();

    if (journal == NULL)
        return;
    memcpy(journal->misuses, noted, note_count * sizeof *noted);
    atomic_store(&journal->misuse_count, (uint32_t)note_count);
    atomic_fetch_add(&journal->misuse, 1);
}

void nxm_misuse_note(const struct nxm_misuse *misuse)
{
    size_t at = 0;

    nxm_lock_acquire(&lock);
    while (at < note_count && !is_same(&noted[at], misuse))
        at++;
    if (at < note_count) {
        noted[at].count++;
    } else if (at < NXM_MISUSES_MAX) {
        noted[at] = *misuse;
        noted[at].count = 1;
        note_count++;
    }
    copy_to_journal();
    nxm_lock_release(&lock);
}

size_t nxm_misuse_list(struct nxm_misuse *ret_list, size_t capacity)
{
    size_t count;

    nxm_lock_acquire(&lock);
    count = note_count;
    memcpy(ret_list, noted, (count < capacity ? count : capacity) * sizeof *ret_list);
    nxm_lock_release(&lock);
    return count;
}
