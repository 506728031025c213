/* One object, every key always there (docs/report.md). */
#include "report_format.h"

static const char *const class_keys[NXM_CLASS_COUNT] = {
#define CLASS(name, words, leak) [NXM_CLASS_##name] = #name,
#include "class.def"
#undef CLASS
};

static void number(struct nxm_page *page, const char *key, uint64_t value)
{
    nxm_page_printf(page, "\"%s\": %ju", key, (uintmax_t)value);
}

struct figure {
    const char *key;
    uint64_t value;
};

static void numbers(struct nxm_page *page, const char *between, const struct figure *figures, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        nxm_page_printf(page, "%s", i == 0 ? "" : between);
        number(page, figures[i].key, figures[i].value);
    }
}

#define NUMBERS(page, between, figures) numbers(page, between, figures, sizeof(figures) / sizeof(figures)[0])

static void string(struct nxm_page *page, const char *key, const char *value)
{
    nxm_page_printf(page, "\"%s\": ", key);
    nxm_page_json(page, value);
}

static void boolean(struct nxm_page *page, const char *key, bool value)
{
    nxm_page_printf(page, "\"%s\": %s", key, value ? "true" : "false");
}

static void amount(struct nxm_page *page, const char *key, struct nxm_amount value)
{
    nxm_page_printf(page, "  \"%s\": {\"blocks\": %ju, \"bytes\": %ju},\n", key, (uintmax_t)value.blocks, (uintmax_t)value.bytes);
}

static void head(struct nxm_page *page, const struct nxm_report *report)
{
    nxm_page_printf(page, "  \"schema\": 1,\n  ");
    string(page, "version", report->version);
    nxm_page_printf(page, ",\n  ");
    string(page, "program", report->program);
    nxm_page_printf(page, ",\n  \"pid\": %d,\n  ", report->pid);
    string(page, "plugin", report->plugin);
    nxm_page_printf(page, ",\n  ");
    string(page, "mechanism", report->mechanism);
    nxm_page_printf(page, ",\n");
}

/* --- places ----------------------------------------------------------------------------------------------- */

static void frame_object(struct nxm_page *page, const struct nxm_frame *frame)
{
    nxm_page_printf(page, "{");
    number(page, "pc", frame->pc);
    nxm_page_printf(page, ", ");
    string(page, "module", frame->module[0] == '\0' ? NULL : frame->module);
    nxm_page_printf(page, ", ");
    number(page, "offset", frame->offset);
    nxm_page_printf(page, ", ");
    string(page, "symbol", frame->symbol);
    nxm_page_printf(page, ", ");
    number(page, "symbol_offset", frame->symbol_offset);
    nxm_page_printf(page, "}");
}

static void frame_list(struct nxm_page *page, const char *key, uint32_t stack)
{
    struct nxm_frame frames[NXM_STACK_DEPTH_MAX];
    size_t count = nxm_stack_frames(stack, frames, NXM_STACK_DEPTH_MAX);

    nxm_page_printf(page, "\"%s\": [", key);
    for (size_t i = 0; i < count; i++) {
        nxm_page_printf(page, "%s\n      ", i == 0 ? "" : ",");
        frame_object(page, &frames[i]);
    }
    nxm_page_printf(page, "]");
}

static void place(struct nxm_page *page, const struct nxm_report *report, const struct nxm_leak_group *group)
{
    nxm_page_printf(page, "    {");
    number(page, "bytes", group->amount.bytes);
    nxm_page_printf(page, ", ");
    number(page, "blocks", group->amount.blocks);
    nxm_page_printf(page, ", ");
    string(page, "class", class_keys[group->class_]);
    if (group->device >= 0)
        nxm_page_printf(page, ", \"device\": %d, ", group->device);
    else
        nxm_page_printf(page, ", \"device\": null, ");
    string(page, "api", nxm_report_api(report, group->api));
    nxm_page_printf(page, ", ");
    frame_list(page, "frames", group->stack);
    nxm_page_printf(page, "}");
}

/* What is unknown of the block is null, a stack that was not kept empty. */
static void misuse(struct nxm_page *page, const struct nxm_report *report, const struct nxm_misuse *noted)
{
    nxm_page_printf(page, "    {");
    string(page, "what", nxm_misuse_words(noted->kind));
    nxm_page_printf(page, ", ");
    number(page, "count", noted->count);
    nxm_page_printf(page, ", ");
    number(page, "address", noted->address);
    nxm_page_printf(page, ", ");
    frame_list(page, "frames", noted->stack);
    nxm_page_printf(page, ",\n     ");
    frame_list(page, "freed", noted->freed);
    nxm_page_printf(page, ",\n     ");
    number(page, "bytes", noted->bytes);
    nxm_page_printf(page, ", ");
    string(page, "api", noted->api < 0 ? NULL : nxm_report_api(report, (unsigned)noted->api));
    nxm_page_printf(page, ", ");
    frame_list(page, "allocated", noted->allocated);
    nxm_page_printf(page, "}");
}

static void misuses(struct nxm_page *page, const struct nxm_report *report)
{
    nxm_page_printf(page, "  \"misuses\": [");
    for (size_t i = 0; i < report->misuse_count; i++) {
        nxm_page_printf(page, "%s\n", i == 0 ? "" : ",");
        misuse(page, report, &report->misuses[i]);
    }
    nxm_page_printf(page, "],\n");
}

static void leak_sums(struct nxm_page *page, const struct nxm_leaks *leaks)
{
    nxm_page_printf(page, "  ");
    boolean(page, "grouped", leaks->grouped);
    nxm_page_printf(page, ",\n");
    amount(page, "leaked", leaks->leaked);
    amount(page, "suppressed", leaks->suppressed);
    nxm_page_printf(page, "  \"places\": [");
}

static void places(struct nxm_page *page, const struct nxm_report *report, const struct nxm_leaks *leaks)
{
    leak_sums(page, leaks);
    for (size_t i = 0; i < leaks->places && leaks->grouped; i++) {
        nxm_page_printf(page, "%s\n", i == 0 ? "" : ",");
        place(page, report, &leaks->groups[i]);
    }
    nxm_page_printf(page, "],\n");
}

/* --- totals ------------------------------------------------------------------------------------------------ */

static void class_object(struct nxm_page *page, const char *key, const struct nxm_class_totals *totals)
{
    const struct figure figures[] = {
        { "live_blocks", totals->live_blocks }, { "live_bytes", totals->live_bytes }, { "peak_bytes", totals->peak_bytes },
        { "ever_blocks", totals->ever_blocks }, { "ever_bytes", totals->ever_bytes },
    };

    nxm_page_printf(page, "\n    \"%s\": {", key);
    NUMBERS(page, ", ", figures);
    nxm_page_printf(page, "}");
}

static void classes(struct nxm_page *page, const struct nxm_leaks *leaks)
{
    nxm_page_printf(page, "  \"classes\": {");
    for (int class_ = 0; class_ < NXM_CLASS_COUNT; class_++) {
        nxm_page_printf(page, "%s", class_ == 0 ? "" : ",");
        class_object(page, class_keys[class_], &leaks->classes[class_]);
    }
    nxm_page_printf(page, "\n  },\n");
}

static void others(struct nxm_page *page, const struct nxm_report *report, const struct nxm_leaks *leaks)
{
    const struct figure figures[] = {
        { "views", report->views },
        { "misuse", report->misuse },
        { "owned_bytes", report->owned_bytes },
        { "mapped_bytes", report->mapped_bytes },
        { "stacks_dropped", nxm_stack_dropped() },
    };

    amount(page, "waiting", leaks->waiting);
    nxm_page_printf(page, "  ");
    number(page, "waiting_peak_bytes", report->waiting_peak_bytes);
    nxm_page_printf(page, ",\n");
    amount(page, "quarantined", report->quarantined);
    amount(page, "reclaimed_by_reset", report->reclaimed_by_reset);
    amount(page, "freed_during_exit", report->freed_during_exit);
    amount(page, "freed_out_of_sight", report->freed_out_of_sight);
    amount(page, "imports_left_open", report->imported);
    amount(page, "unknown_frees", report->unknown_frees);
    nxm_page_printf(page, "  ");
    NUMBERS(page, ",\n  ", figures);
    nxm_page_printf(page, ",\n");
}

/* --- gate --------------------------------------------------------------------------------------------------- */

static const char *reason_word(enum nxm_gate_reason reason)
{
    switch (reason) {
    case NXM_GATE_OPEN:
        return "open";
    case NXM_GATE_QUERY_FAILED:
        return "query_failed";
    case NXM_GATE_HOST:
        return "host";
    case NXM_GATE_PLUGIN:
        return "plugin";
    case NXM_GATE_REFERENCED:
        return "referenced";
    }
    return NULL;
}

static void gate(struct nxm_page *page, const struct nxm_report *report)
{
    const struct nxm_tallies *host = &report->gate.host;
    const NxmemUnloadReport *plugin = &report->gate.plugin;

    nxm_page_printf(page, "  \"gate\": {");
    boolean(page, "asked", report->gate_known);
    nxm_page_printf(page, ", ");
    boolean(page, "unloaded", nxm_report_unloaded(report));
    nxm_page_printf(page, ", ");
    string(page, "reason", report->gate_known ? reason_word(report->gate.reason) : NULL);
    nxm_page_printf(page, ", ");
    string(page, "extra", report->gate_extra);
    nxm_page_printf(page, ",\n    \"host\": {\"allocators\": %ju, \"allocations\": %ju, \"queued\": %ju, \"inside\": %ju},\n",
                    (uintmax_t)host->allocators, (uintmax_t)host->allocations, (uintmax_t)host->queued,
                    (uintmax_t)host->inside);
    nxm_page_printf(page, "    \"plugin\": {\"allocators\": %ju, \"allocations\": %ju, \"views\": %ju, "
                          "\"capabilities\": %ju, \"queued\": %ju}},\n",
                    (uintmax_t)plugin->live_allocators, (uintmax_t)plugin->live_allocations, (uintmax_t)plugin->live_views,
                    (uintmax_t)plugin->live_capabilities, (uintmax_t)plugin->queued_releases);
}

static void device_memory(struct nxm_page *page, const struct nxm_report *report)
{
    nxm_page_printf(page, "  \"device_memory\": [");
    for (size_t i = 0; i < report->device_memory_count; i++) {
        const struct nxm_device_memory *memory = &report->device_memory[i];

        nxm_page_printf(page, "%s{\"device\": %d, \"used\": %ju, \"recorded\": %ju, \"unexplained\": %ju}", i == 0 ? "" : ", ",
                        memory->device, (uintmax_t)memory->used, (uintmax_t)memory->recorded,
                        (uintmax_t)(memory->used > memory->recorded ? memory->used - memory->recorded : 0));
    }
    nxm_page_printf(page, "],\n");
}

/* --- names ------------------------------------------------------------------------------------------------- */

static void names(struct nxm_page *page, const char *key, const struct nxm_names *names)
{
    nxm_page_printf(page, "\"%s\": [", key);
    for (size_t i = 0; i < names->count; i++) {
        nxm_page_printf(page, "%s", i == 0 ? "" : ", ");
        nxm_page_json(page, names->list[i]);
    }
    nxm_page_printf(page, "]");
}

static void all_names(struct nxm_page *page, const struct nxm_report *report)
{
    nxm_page_printf(page, "  ");
    names(page, "unknown_names", &report->unknown);
    nxm_page_printf(page, ",\n  ");
    names(page, "uncovered", &report->uncovered);
    nxm_page_printf(page, ",\n  \"coverage\": ");
    if (report->coverage == NULL) {
        nxm_page_printf(page, "null,\n");
        return;
    }
    nxm_page_printf(page, "{\n    ");
    names(page, "hooked", &report->coverage->hooked);
    nxm_page_printf(page, ",\n    ");
    names(page, "passed", &report->coverage->passed);
    nxm_page_printf(page, ",\n    ");
    names(page, "unknown", &report->coverage->unknown);
    nxm_page_printf(page, "\n  },\n");
}

static void tail(struct nxm_page *page, const struct nxm_report *report)
{
    const struct figure figures[] = {
        { "leaked_callback_tables", report->counters.leaked_callback_tables },
        { "reclaimed_callback_tables", report->counters.reclaimed_callback_tables },
        { "forced_module_leaks", report->counters.forced_module_leaks },
        { "modules_unmapped", report->counters.modules_unmapped },
    };

    nxm_page_printf(page, "  \"counters\": {");
    NUMBERS(page, ", ", figures);
    nxm_page_printf(page, "},\n  ");
    string(page, "note", report->note);
    nxm_page_printf(page, "\n");
}

void nxm_report_json(struct nxm_page *page, const struct nxm_report *report, const struct nxm_leaks *leaks)
{
    nxm_page_printf(page, "{\n");
    head(page, report);
    places(page, report, leaks);
    classes(page, leaks);
    others(page, report, leaks);
    misuses(page, report);
    device_memory(page, report);
    gate(page, report);
    all_names(page, report);
    tail(page, report);
    nxm_page_printf(page, "}\n");
}
