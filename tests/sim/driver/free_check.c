#include "free_check.h"

#include "block.h"
#include "capture.h"
#include "context.h"
#include "finding.h"
#include "graph.h"
#include "graveyard.h"

struct search {
    const struct sim_block *block;
    bool in_capture, in_graph;
};

static bool uses(const struct sim_templates *works, const struct sim_block *b)
{
    for (size_t i = 0; i < works->count; i++)
        for (unsigned k = 0; k < works->items[i]->touch_count; k++)
            if (works->items[i]->touches[k] == b) return true;
    return false;
}

static void visit_node(struct sim_object *o, void *arg)
{
    struct search *s = arg;
    const struct sim_graph_node *n = (struct sim_graph_node *)o;
    if (!n->graph || !uses(&n->works, s->block)) return;
    if (sim_capture_builds(n->graph)) s->in_capture = true;
    else s->in_graph = true;
}

static void visit_exec(struct sim_object *o, void *arg)
{
    struct search *s = arg;
    if (uses(&((struct sim_exec *)o)->works, s->block)) s->in_graph = true;
}

/* Graphs hold references to the blocks they use. */
static void check_graphs(const struct sim_block *b)
{
    struct search s = { .block = b };
    if (b->refs < 2 || b->kind == SIM_BLOCK_GRAPH) return;
    if (sim_object_count(SIM_NODE)) sim_object_each(SIM_NODE, visit_node, &s);
    if (sim_object_count(SIM_EXEC)) sim_object_each(SIM_EXEC, visit_exec, &s);
    if (s.in_capture) sim_find_call(SIM_FINDING_free_in_capture, b, 0);
    else if (s.in_graph) sim_find_call(SIM_FINDING_free_in_graph, b, 0);
}

/* Programs of the runtime free the memory of one device while another is current: that is their way. */
static bool is_another(const struct sim_context *current, const struct sim_context *owner)
{
    return current != owner && !(current->primary && owner->primary);
}

void sim_free_check(const struct sim_block *b)
{
    struct sim_context *current;
    if (b->context && sim_context_current(&current) == CUDA_SUCCESS && is_another(current, b->context))
        sim_find_call(SIM_FINDING_wrong_context, b, 0);
    check_graphs(b);
}

void sim_free_check_unknown(uint64_t address)
{
    sim_graveyard_accuse(address);
}
