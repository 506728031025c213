#include "report_format.h"

#include <string.h>

#define LABEL "%-20s"

/* The list of places is as long as a program has places, so its lines are put together piece by piece; everything else is told
 * once, and has formats. */

static bool is_control(char c)
{
    return (unsigned char)c < 0x20 || c == 0x7f;
}

/* Is one of eight bytes such a character? One in the upper half is none. */
static bool any_control(const char *s)
{
    const uint64_t ones = UINT64_MAX / 0xff, tops = ones << 7;
    uint64_t word, deleted;

    memcpy(&word, s, sizeof word);
    deleted = word ^ ones * 0x7f;
    return (((word - ones * 0x20) & ~word) | ((deleted - ones) & ~deleted)) & tops;
}

/* By words while they lie inside; the last one may overlap the one before. */
static size_t plain_length(const char *s, size_t length)
{
    size_t at = 0, last = length - sizeof(uint64_t);

    if (length >= sizeof(uint64_t)) {
        while (at < last && !any_control(s + at))
            at += sizeof(uint64_t);
        if (at >= last && !any_control(s + last))
            return length;
    }
    while (at < length && !is_control(s[at]))
        at++;
    return at;
}

/* A name that is not ours: what would end the line or move the cursor becomes a question mark. */
static void name_of_length(struct nxm_page *page, const char *s, size_t left)
{
    size_t plain;

    while ((plain = plain_length(s, left)) < left) {
        nxm_text_append(&page->text, s, plain);
        nxm_text_string(&page->text, "?");
        s += plain + 1;
        left -= plain + 1;
    }
    nxm_text_append(&page->text, s, left);
}

static void name(struct nxm_page *page, const char *s)
{
    name_of_length(page, s, strlen(s));
}

static void base_name(struct nxm_page *page, const char *path)
{
    size_t length = strlen(path);
    const char *slash = memrchr(path, '/', length), *from = slash == NULL ? path : slash + 1;

    name_of_length(page, from, length - (size_t)(from - path));
}

static void count_of(struct nxm_page *page, uint64_t count, const char *noun)
{
    nxm_text_count(&page->text, count, noun);
}

/* "3 blocks, 1.50 MiB" */
static void amount_of(struct nxm_page *page, struct nxm_amount amount, const char *noun)
{
    count_of(page, amount.blocks, noun);
    nxm_text_string(&page->text, ", ");
    nxm_page_bytes(page, amount.bytes);
}

/* --- head ----------------------------------------------------------------------------------------------- */

static void header(struct nxm_page *page, const struct nxm_report *report)
{
    nxm_page_printf(page, "nxmem %s: report of ", report->version);
    name(page, report->program == NULL ? "an unknown program" : report->program);
    nxm_page_printf(page, ", pid %d, %s", report->pid, report->plugin == NULL ? "no plugin" : "plugin ");
    if (report->plugin != NULL)
        name(page, report->plugin);
    if (report->mechanism != NULL && report->mechanism[0] != '\0') {
        nxm_page_printf(page, ", mechanism ");
        name(page, report->mechanism);
    }
    nxm_page_printf(page, "\n");
}

static void summary(struct nxm_page *page, const struct nxm_leaks *leaks)
{
    if (leaks->leaked.blocks == 0) {
        nxm_page_printf(page, "no leaks\n");
        return;
    }
    nxm_page_printf(page, "LEAK: ");
    amount_of(page, leaks->leaked, "block");
    if (leaks->grouped) {
        nxm_page_printf(page, " in ");
        count_of(page, leaks->places, "place");
        nxm_page_printf(page, "\n");
    } else {
        nxm_page_printf(page, " (no memory left to tell the places apart)\n");
    }
}

/* --- places ---------------------------------------------------------------------------------------------- */

static void frame_line(struct nxm_page *page, size_t number, const struct nxm_frame *frame)
{
    struct nxm_text *text = &page->text;

    nxm_text_string(text, "    #");
    nxm_text_decimal(text, number);
    if (frame->symbol != NULL) {
        nxm_text_string(text, " ");
        name(page, frame->symbol);
        nxm_text_string(text, "+0x");
        nxm_text_hex(text, frame->symbol_offset);
    }
    if (frame->module[0] != '\0') {
        nxm_text_string(text, " (");
        base_name(page, frame->module);
        nxm_text_string(text, "+0x");
        nxm_text_hex(text, frame->offset);
        nxm_text_string(text, ")\n");
    } else {
        nxm_page_printf(page, " (0x%jx, in no loaded file)\n", (uintmax_t)frame->pc);
    }
}

static void frame_lines(struct nxm_page *page, uint32_t stack)
{
    struct nxm_frame frames[NXM_STACK_DEPTH_MAX];
    size_t count = nxm_stack_frames(stack, frames, NXM_STACK_DEPTH_MAX);

    for (size_t i = 0; i < count; i++)
        frame_line(page, i, &frames[i]);
    if (count == 0)
        nxm_text_string(&page->text, "    (no call stack was kept)\n");
}

static void place(struct nxm_page *page, const struct nxm_report *report, const struct nxm_leak_group *group)
{
    const char *api = nxm_report_api(report, group->api);
    struct nxm_text *text = &page->text;

    nxm_text_string(text, "\n");
    nxm_text_bytes(text, group->amount.bytes);
    nxm_text_string(text, " in ");
    count_of(page, group->amount.blocks, "block");
    if (group->device >= 0) {
        nxm_text_string(text, ", device ");
        nxm_text_decimal(text, (uint64_t)group->device);
    }
    nxm_text_string(text, ", ");
    name(page, api == NULL ? "unknown call" : api);
    if (group->class_ != NXM_CLASS_DEVICE) {
        nxm_text_string(text, ", ");
        nxm_text_string(text, nxm_class_words((enum nxm_class)group->class_));
    }
    nxm_text_string(text, "\n");
    frame_lines(page, group->stack);
}

/* --- refused frees ---------------------------------------------------------------------------------------- */

static void misuse(struct nxm_page *page, const struct nxm_report *report, const struct nxm_misuse *noted)
{
    const char *api = noted->api < 0 ? NULL : nxm_report_api(report, (unsigned)noted->api);

    nxm_page_printf(page, "\nMISUSE: free of 0x%jx refused: %s", (uintmax_t)noted->address, nxm_misuse_words(noted->kind));
    if (noted->count > 1)
        nxm_page_printf(page, "; %ju times", (uintmax_t)noted->count);
    nxm_page_printf(page, "\n");
    frame_lines(page, noted->stack);
    if (noted->freed != 0) {
        nxm_page_printf(page, "  it had been freed\n");
        frame_lines(page, noted->freed);
    }
    if (noted->api < 0)
        return;
    nxm_page_printf(page, "  of a block of ");
    nxm_page_bytes(page, noted->bytes);
    nxm_page_printf(page, ", ");
    name(page, api == NULL ? "unknown call" : api);
    nxm_page_printf(page, "\n");
    frame_lines(page, noted->allocated);
}

/* --- totals ----------------------------------------------------------------------------------------------- */

static void class_line(struct nxm_page *page, const char *label, const struct nxm_class_totals *totals)
{
    struct nxm_amount live = { totals->live_blocks, totals->live_bytes }, ever = { totals->ever_blocks, totals->ever_bytes };

    if (totals->ever_blocks == 0)
        return;
    nxm_page_printf(page, LABEL "live ", label);
    amount_of(page, live, "block");
    nxm_page_printf(page, "; peak ");
    nxm_page_bytes(page, totals->peak_bytes);
    nxm_page_printf(page, "; in all ");
    amount_of(page, ever, "block");
    nxm_page_printf(page, "\n");
}

/* The program's own virtual memory is three things that must not be added up: one line for all of them. */
static void vmm_line(struct nxm_page *page, const struct nxm_leaks *leaks)
{
    static const struct {
        enum nxm_class class_;
        const char *verb, *noun;
    } parts[] = {
        { NXM_CLASS_VMM_RESERVED, "reserved", "range" },
        { NXM_CLASS_VMM_CREATED, "created", "handle" },
        { NXM_CLASS_VMM_MAPPED, "mapped", "mapping" },
    };
    bool used = false;

    for (size_t i = 0; i < 3; i++)
        used = used || leaks->classes[parts[i].class_].ever_blocks != 0;
    if (!used)
        return;
    nxm_page_printf(page, LABEL, "program's own VMM");
    for (size_t i = 0; i < 3; i++) {
        const struct nxm_class_totals *totals = &leaks->classes[parts[i].class_];

        nxm_page_printf(page, "%s%s ", i == 0 ? "" : "; ", parts[i].verb);
        nxm_page_bytes(page, totals->live_bytes);
        nxm_page_printf(page, " in ");
        count_of(page, totals->live_blocks, parts[i].noun);
        nxm_page_printf(page, " (peak ");
        nxm_page_bytes(page, totals->peak_bytes);
        nxm_page_printf(page, ")");
    }
    nxm_page_printf(page, "\n");
}

static bool is_vmm(int class_)
{
    return class_ == NXM_CLASS_VMM_RESERVED || class_ == NXM_CLASS_VMM_CREATED || class_ == NXM_CLASS_VMM_MAPPED;
}

static void class_lines(struct nxm_page *page, const struct nxm_leaks *leaks)
{
    for (int class_ = 0; class_ < NXM_CLASS_COUNT; class_++) {
        if (!is_vmm(class_))
            class_line(page, nxm_class_words((enum nxm_class)class_), &leaks->classes[class_]);
    }
    vmm_line(page, leaks);
}

static void amount_line(struct nxm_page *page, const char *label, struct nxm_amount amount, const char *words)
{
    if (amount.blocks == 0 && amount.bytes == 0)
        return;
    nxm_page_printf(page, LABEL, label);
    amount_of(page, amount, "block");
    nxm_page_printf(page, "%s\n", words);
}

static void count_line(struct nxm_page *page, const char *label, uint64_t count, const char *noun, const char *words)
{
    if (count == 0)
        return;
    nxm_page_printf(page, LABEL, label);
    count_of(page, count, noun);
    nxm_page_printf(page, "%s\n", words);
}

static void plugin_memory_line(struct nxm_page *page, const struct nxm_report *report)
{
    if (report->owned_bytes == 0 && report->mapped_bytes == 0)
        return;
    nxm_page_printf(page, LABEL "owned ", "by the plugin");
    nxm_page_bytes(page, report->owned_bytes);
    nxm_page_printf(page, ", mapped ");
    nxm_page_bytes(page, report->mapped_bytes);
    nxm_page_printf(page, ", for live blocks\n");
}

static void suppressed_line(struct nxm_page *page, const struct nxm_leaks *leaks)
{
    if (leaks->suppressed.blocks == 0)
        return;
    nxm_page_printf(page, LABEL, "suppressed");
    amount_of(page, leaks->suppressed, "block");
    if (leaks->grouped) {
        nxm_page_printf(page, " in ");
        count_of(page, leaks->group_count - leaks->places, "place");
    }
    nxm_page_printf(page, "\n");
}

static void waiting_lines(struct nxm_page *page, const struct nxm_report *report, const struct nxm_leaks *leaks)
{
    amount_line(page, "waiting", leaks->waiting, ": freed by the program, not yet by its owner");
    if (report->waiting_peak_bytes == 0)
        return;
    nxm_page_printf(page, LABEL, "waiting at most");
    nxm_page_bytes(page, report->waiting_peak_bytes);
    nxm_page_printf(page, " at a time\n");
}

static void other_lines(struct nxm_page *page, const struct nxm_report *report, const struct nxm_leaks *leaks)
{
    suppressed_line(page, leaks);
    waiting_lines(page, report, leaks);
    count_line(page, "views", report->views, "shared prefix view", " in live blocks");
    amount_line(page, "quarantined", report->quarantined, ": kept back by the plugin for good");
    amount_line(page, "reclaimed by reset", report->reclaimed_by_reset, ": live when their context went");
    amount_line(page, "freed during exit", report->freed_during_exit, ": after the plugin's last moment");
    amount_line(page, "freed out of sight", report->freed_out_of_sight, ": gone without a free that we saw");
    amount_line(page, "imports left open", report->imported, "");
    count_line(page, "unknown frees", report->unknown_frees.blocks, "free", " of an address that we never saw");
    count_line(page, "misuse", report->misuse, "free", " answered with an error (double, foreign or interior)");
    plugin_memory_line(page, report);
    count_line(page, "call stacks", nxm_stack_dropped(), "capture", " not kept: the memory for stacks is used up");
}

/* --- gate -------------------------------------------------------------------------------------------------- */

static void gate_count(struct nxm_page *page, uint64_t count, const char *noun, bool *first)
{
    if (count == 0)
        return;
    nxm_page_printf(page, *first ? "" : ", ");
    count_of(page, count, noun);
    *first = false;
}

/* "2 blocks, 1 view". An open allocator goes without saying while something lives in it. */
static void gate_counts(struct nxm_page *page, uint64_t blocks, uint64_t views, uint64_t queued, uint64_t allocators,
                        uint64_t capabilities)
{
    bool first = true;

    gate_count(page, blocks, "block", &first);
    gate_count(page, views, "view", &first);
    gate_count(page, queued, "queued release", &first);
    if (first)
        gate_count(page, allocators, "open allocator", &first);
    if (first)
        gate_count(page, capabilities, "live capability record", &first);
}

static void gate_reason(struct nxm_page *page, const struct nxm_report *report)
{
    const struct nxm_gate *gate = &report->gate;
    uint64_t views = report->views > gate->plugin.live_views ? report->views : gate->plugin.live_views;

    switch (gate->reason) {
    case NXM_GATE_OPEN:
        nxm_page_printf(page, "%s", report->gate_extra == NULL ? "its handle was kept" : report->gate_extra);
        return;
    case NXM_GATE_QUERY_FAILED:
        nxm_page_printf(page, "it could not say what is live in it");
        break;
    case NXM_GATE_HOST:
        if ((gate->host.allocations | gate->host.queued | gate->host.allocators | views) == 0)
            nxm_page_printf(page, "a thread of it was inside a callback");
        gate_counts(page, gate->host.allocations, views, gate->host.queued, gate->host.allocators, 0);
        break;
    case NXM_GATE_PLUGIN:
        nxm_page_printf(page, "by its own count ");
        gate_counts(page, gate->plugin.live_allocations, gate->plugin.live_views, gate->plugin.queued_releases,
                    gate->plugin.live_allocators, gate->plugin.live_capabilities);
        break;
    case NXM_GATE_REFERENCED:
        nxm_page_printf(page, "something else still uses it");
        break;
    }
    if (report->gate_extra != NULL)
        nxm_page_printf(page, "; %s", report->gate_extra);
}

/* What is not recorded is normal: contexts, code, local memory, what other processes hold. */
static void device_memory_lines(struct nxm_page *page, const struct nxm_report *report)
{
    for (size_t i = 0; i < report->device_memory_count; i++) {
        const struct nxm_device_memory *memory = &report->device_memory[i];

        nxm_page_printf(page, LABEL, "device memory");
        nxm_page_bytes(page, memory->used);
        nxm_page_printf(page, " of device %d in use when the driver was last asked: ", memory->device);
        nxm_page_bytes(page, memory->recorded);
        nxm_page_printf(page, " in blocks, ");
        nxm_page_bytes(page, memory->used > memory->recorded ? memory->used - memory->recorded : 0);
        nxm_page_printf(page, " beside them\n");
    }
}

static void gate_line(struct nxm_page *page, const struct nxm_report *report)
{
    if (report->plugin == NULL && !report->gate_known)
        return;
    nxm_page_printf(page, LABEL, "unload gate");
    if (!report->gate_known) {
        nxm_page_printf(page, "not asked: only an orderly exit asks\n");
        return;
    }
    if (nxm_report_unloaded(report)) {
        nxm_page_printf(page, "plugin unloaded\n");
        return;
    }
    nxm_page_printf(page, "plugin kept mapped: ");
    gate_reason(page, report);
    nxm_page_printf(page, "\n");
}

static void counter_lines(struct nxm_page *page, const struct nxm_report *report)
{
    count_line(page, "leaked on purpose", report->counters.leaked_callback_tables, "callback table",
               ": a release it belongs to never completed");
    count_line(page, "leaked on purpose", report->counters.forced_module_leaks, "plugin module",
               ": dropped while something lived in it");
}

/* --- names ------------------------------------------------------------------------------------------------- */

/* Several to a line; `indent` begins each further one. */
static void names(struct nxm_page *page, const struct nxm_names *names, const char *separator, const char *indent)
{
    size_t column = strlen(indent);

    for (size_t i = 0; i < names->count; i++) {
        size_t length = strlen(names->list[i]);

        if (i > 0 && column + length > 110) {
            nxm_page_printf(page, "%s\n%s", separator, indent);
            column = strlen(indent);
        } else if (i > 0) {
            nxm_page_printf(page, "%s ", separator);
        }
        name(page, names->list[i]);
        column += length + strlen(separator) + 1;
    }
}

static void names_line(struct nxm_page *page, const char *label, const struct nxm_names *list, const char *words)
{
    if (list->count == 0)
        return;
    nxm_page_printf(page, LABEL, label);
    names(page, list, ",", "                    ");
    nxm_page_printf(page, "%s\n", words);
}

static void coverage_list(struct nxm_page *page, const char *word, const struct nxm_names *list)
{
    if (list->count == 0)
        return;
    nxm_page_printf(page, "    %-8s ", word);
    names(page, list, "", "             ");
    nxm_page_printf(page, "\n");
}

static void coverage_lines(struct nxm_page *page, const struct nxm_coverage *coverage)
{
    if (coverage == NULL)
        return;
    nxm_page_printf(page, LABEL "resolved: %zu hooked, %zu passed on, %zu unknown to this version\n", "coverage",
                    coverage->hooked.count, coverage->passed.count, coverage->unknown.count);
    coverage_list(page, "hooked", &coverage->hooked);
    coverage_list(page, "passed", &coverage->passed);
    coverage_list(page, "unknown", &coverage->unknown);
}

void nxm_report_text(struct nxm_page *page, const struct nxm_report *report, const struct nxm_leaks *leaks)
{
    header(page, report);
    summary(page, leaks);
    for (size_t i = 0; i < leaks->places && leaks->grouped; i++)
        place(page, report, &leaks->groups[i]);
    for (size_t i = 0; i < report->misuse_count; i++)
        misuse(page, report, &report->misuses[i]);
    nxm_page_printf(page, "\n");
    class_lines(page, leaks);
    other_lines(page, report, leaks);
    device_memory_lines(page, report);
    gate_line(page, report);
    counter_lines(page, report);
    names_line(page, "unknown names", &report->unknown, ": what is allocated through them is not seen");
    names_line(page, "uncovered", &report->uncovered, ": calls from there are not seen");
    if (report->note != NULL) {
        nxm_page_printf(page, LABEL, "note");
        name(page, report->note);
        nxm_page_printf(page, "\n");
    }
    coverage_lines(page, report->coverage);
}
