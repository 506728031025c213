/* Where allocations lie (11.8): live ones share no byte, and what is freed or queued gives its place to others no sooner, and
 * no larger, than it may. */
#include "rules.h"
#include "text.h"
#include "verdict.h"

enum { MANY = 24, ROW = 6, PLACES = 4 * ROW, QUEUED = 4 };

static void expect_apart(const struct block *a, const struct block *b, const char *when) {
    EXPECT(!blocks_overlap(a, b), "%s %llu bytes at %p and %llu bytes at %p share memory", when, (unsigned long long)a->name.bytes,
           (void *)a->result.ptr, (unsigned long long)b->name.bytes, (void *)b->result.ptr);
}

void rule_distinct(struct subject *subject, struct opened *opened) {
    struct block blocks[MANY];
    (void)subject;
    for (unsigned i = 0; i < MANY; i++) {
        blocks[i] = must_allocate(opened, i % 3 == 0 ? 1 : i % 3 == 1 ? 4096 : 70000);
        for (unsigned j = 0; j < i; j++) expect_apart(&blocks[i], &blocks[j], "both live,");
    }
    if (!is_touchable(opened)) return;
    for (unsigned i = 0; i < MANY; i++) fill(&blocks[i]);
    for (unsigned i = 0; i < MANY; i++) EXPECT(is_filled(&blocks[i]), "memory changed while it was live");
}

/* --- places that are given again --- */

struct places {
    struct opened *opened;
    struct block blocks[PLACES];
    bool live[PLACES];
    unsigned count;
};

static void take(struct places *places, uint64_t bytes, const char *when) {
    struct block block = must_allocate(places->opened, bytes);
    for (unsigned i = 0; i < places->count; i++)
        if (places->live[i]) expect_apart(&block, &places->blocks[i], when);
    if (is_touchable(places->opened)) fill(&block);
    places->live[places->count] = true;
    places->blocks[places->count++] = block;
}

/* By deallocate: how other slots end is for other rules. */
static void leave(struct places *places, unsigned index) {
    uint64_t unmapped;
    if (is_touchable(places->opened)) EXPECT(is_filled(&places->blocks[index]), "memory changed while it was live");
    NxmemStatus status = try_deallocate(places->opened, &places->blocks[index].name, &unmapped);
    NEED(status.code == NXMEM_STATUS_OK, "deallocate answers %s (12.8)", status_words(&status));
    places->live[index] = false;
}

/* From the first, from the last, or from the middle outwards. */
static unsigned nth(unsigned order, unsigned i, unsigned count) {
    if (order == 0) return i;
    if (order == 1) return count - 1 - i;
    return i % 2 ? count / 2 - (i + 1) / 2 : count / 2 + i / 2;
}

static void leave_all(struct places *places, unsigned from, unsigned to, unsigned step, unsigned order) {
    unsigned count = (to - from + step - 1) / step;
    for (unsigned i = 0; i < count; i++) leave(places, from + nth(order, i, count) * step);
}

/* Small ones with holes between them, larger ones, which the holes are too small for, and small ones again where the larger
 * were. What a hole is to an allocator depends on its sizes: a few are tried. */
void rule_reused(struct subject *subject, struct opened *opened) {
    static const uint64_t small[] = {48, 4000, 300}, large[] = {3000, 70000, 8300};
    (void)subject;
    for (unsigned round = 0; round < sizeof small / sizeof *small; round++) {
        struct places places = {.opened = opened};
        for (unsigned i = 0; i < ROW; i++) take(&places, small[round], "both live,");
        leave_all(&places, 1, ROW, 2, round);
        for (unsigned i = 0; i < ROW / 2; i++) take(&places, large[round], "where smaller ones were freed,");
        leave_all(&places, ROW, ROW + ROW / 2, 1, round);
        for (unsigned i = 0; i < 2 * ROW; i++) take(&places, small[round], "where larger ones were freed,");
        for (unsigned i = 0; i < places.count; i++)
            if (places.live[i]) leave(&places, i);
    }
}

/* --- places that are still in use --- */

void rule_queue_keeps(struct subject *subject, struct opened *opened) {
    struct block queued[QUEUED];
    unsigned apart = 0;
    uint32_t state;
    (void)subject;
    for (unsigned i = 0; i < QUEUED; i++) queued[i] = must_allocate(opened, 5000);
    for (unsigned i = 0; i < QUEUED; i++) must_enqueue(opened, &queued[i]);
    for (unsigned i = 0; i < QUEUED; i++) {
        struct block later = must_allocate(opened, 5000);
        for (unsigned j = 0; j < QUEUED; j++) {
            /* Asked afterwards: a thread may have completed it meanwhile. */
            if (host_completed(opened->host, queued[j].name.allocation_id, &state)) continue;
            expect_apart(&later, &queued[j], "one of them queued and not completed,");
            apart++;
        }
    }
    NEED(apart > 0, "releases are completed before anything else can be allocated");
}
