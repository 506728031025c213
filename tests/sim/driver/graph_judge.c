/* What the branches of a graph do to its memory: a use that no path puts behind the allocation, a free that none puts behind
 * a use, would be met by one order of the branches or another. */
#include "block.h"
#include "finding.h"
#include "graph.h"

static bool touches(const struct sim_work *w, const struct sim_block *b)
{
    for (unsigned i = 0; i < w->touch_count; i++)
        if (w->touches[i] == b) return true;
    return false;
}

/* The node's work that does something with the block, NULL: none does. */
static const struct sim_work *involved(const struct sim_graph_node *n, const struct sim_block *b)
{
    for (size_t i = 0; i < n->works.count; i++) {
        const struct sim_work *w = n->works.items[i];
        if (touches(w, b) || (w->owned == b && w->effect != SIM_TOUCHES)) return w;
    }
    return NULL;
}

static void accuse(enum sim_finding kind, const struct sim_work *w, const struct sim_work *other)
{
    struct sim_block *b = w->owned ? w->owned : other->owned;
    struct sim_point place = { .by = other->submitted };
    if (b->accused) return;
    b->accused = true;
    sim_find_unordered(kind, w, b, &place);
}

/* Everybody else comes behind the node that allocates. */
static void judge_birth(struct sim_graph *g, const struct sim_graph_node *birth, const struct sim_work *alloc)
{
    for (struct sim_graph_node *n = g->first; n; n = n->next) {
        const struct sim_work *w = n == birth ? NULL : involved(n, alloc->owned);
        if (!w || !sim_graph_mark(g, &n, 1) || birth->mark) continue;
        accuse(w->effect == SIM_RELEASES ? SIM_FINDING_unordered_free : SIM_FINDING_unordered_use, w, alloc);
    }
}

/* The node that frees comes behind everybody else. */
static void judge_end(struct sim_graph *g, struct sim_graph_node *end, const struct sim_work *release)
{
    if (!sim_graph_mark(g, &end, 1)) return;
    for (struct sim_graph_node *n = g->first; n; n = n->next) {
        const struct sim_work *w = n == end || n->mark ? NULL : involved(n, release->owned);
        if (w && w->effect == SIM_TOUCHES) accuse(SIM_FINDING_unordered_free, release, w);
    }
}

void sim_graph_judge(struct sim_graph *g)
{
    if (!g->has_memory) return;
    for (struct sim_graph_node *n = g->first; n; n = n->next)
        for (size_t i = 0; i < n->works.count; i++) {
            const struct sim_work *w = n->works.items[i];
            if (w->effect == SIM_ALLOCATES) judge_birth(g, n, w);
            if (w->effect == SIM_RELEASES) judge_end(g, n, w);
        }
}
