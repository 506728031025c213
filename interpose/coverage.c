#include "coverage.h"

#include <string.h>

#include "label.h"
#include "objects.h"
#include "route_libc.h"
#include "route_names.h"

enum {
#define PASSED(symbol) NUMBER_##symbol,
#include "cuda_passed.def"
    PASSED_MAX
};
enum { NOTED_MAX = 2 * NXM_NOTED_MAX };

static const char *hooked[NXM_API_COUNT], *passed[PASSED_MAX], *unknown[NOTED_MAX], *suspect[NOTED_MAX], *uncovered[NOTED_MAX];
static char texts[2 * NOTED_MAX][NXM_NOTED_TEXT];
static size_t texts_used;
static struct nxm_coverage coverage;
static bool defined[NOTED_MAX], passed_defined[PASSED_MAX];

/* --- what the process links --------------------------------------------------------------------------------------- */

static enum nxm_api row_of(const char *symbol)
{
    for (unsigned api = 1; api < NXM_API_COUNT; api++) {
        if (strcmp(nxm_api_names[api], symbol) == 0)
            return (enum nxm_api)api;
    }
    return NXM_API_UNKNOWN;
}

static bool is_defined(const struct nxm_objects *objects, const char *symbol)
{
    return nxm_objects_definer(objects, symbol, 0) != NXM_NO_OBJECT;
}

/* A late shim stands in front of nobody: what was linked is bound already. */
static void note_reference(const struct nxm_objects *objects, const char *symbol)
{
    if (!nxm_names_is_cuda(symbol) || !is_defined(objects, symbol))
        return;
    enum nxm_api api = row_of(symbol);
    if (!api)
        nxm_names_asked(symbol);
    else if (nxm_route_startup_end)
        nxm_names_hooked(api);
}

static void note_references(const struct nxm_objects *objects)
{
    for (size_t i = 0; i < objects->count; i++) {
        const struct nxm_object *object = &objects->list[i];
        size_t cursor = 0;

        if (!object->elf.symbols || nxm_object_is_shim(object) || nxm_elf_define(&object->elf, "cuInit"))
            continue;
        for (const char *symbol; (symbol = nxm_elf_next_reference(&object->elf, &cursor)) != NULL;)
            note_reference(objects, symbol);
    }
}

/* Under the loader's lock: what was asked for is there if somebody defines it. */
static void look(void *argument, const struct nxm_objects *objects)
{
    struct nxm_noted noted;
    bool asked;
    const char *symbol;

    (void)argument;
    note_references(objects);
    for (size_t i = 0; i < NOTED_MAX && nxm_names_unknown(i, &noted); i++)
        defined[i] = noted.found || is_defined(objects, noted.text);
    for (size_t i = 0; i < PASSED_MAX && (symbol = nxm_names_passed(i, &asked)) != NULL; i++)
        passed_defined[i] = asked && is_defined(objects, symbol);
}

/* --- the lists ------------------------------------------------------------------------------------------------------ */

static char *next_text(void)
{
    return texts[texts_used < 2 * NOTED_MAX - 1 ? texts_used++ : texts_used];
}

static void add(struct nxm_names *names, const char **list, size_t capacity, const char *name)
{
    for (size_t i = 0; i < names->count; i++) {
        if (strcmp(list[i], name) == 0)
            return;
    }
    if (names->count < capacity)
        list[names->count++] = name;
    names->list = list;
}

static void list_unknown(struct nxm_report *report)
{
    struct nxm_noted noted;

    for (size_t i = 0; i < NOTED_MAX && nxm_names_unknown(i, &noted); i++) {
        if (!defined[i])
            continue;
        char *text = next_text();
        nxm_noted_name(&noted, text);
        add(&coverage.unknown, unknown, NOTED_MAX, text);
        if (noted.allocates)
            add(&report->unknown, suspect, NOTED_MAX, text);
    }
    for (size_t i = 0; i < NOTED_MAX && nxm_names_uncovered_file(i, &noted); i++) {
        char *text = next_text();
        nxm_noted_file(&noted, text);
        add(&report->uncovered, uncovered, NOTED_MAX, text);
    }
}

static void list_known(void)
{
    const char *symbol;
    bool asked;

    for (unsigned api = 1; api < NXM_API_COUNT; api++) {
        if (nxm_names_is_hooked((enum nxm_api)api))
            add(&coverage.hooked, hooked, NXM_API_COUNT, nxm_api_names[api]);
    }
    for (size_t i = 0; i < PASSED_MAX && (symbol = nxm_names_passed(i, &asked)) != NULL; i++) {
        if (passed_defined[i] && coverage.passed.count < PASSED_MAX)
            passed[coverage.passed.count++] = symbol;
    }
    coverage.passed.list = passed;
}

void nxm_coverage_fill(struct nxm_report *ret_report)
{
    struct nxm_noted noted;

    for (size_t i = 0; i < NOTED_MAX && nxm_names_unknown(i, &noted); i++)
        defined[i] = noted.found;
    if (nxm_route_coverage())
        nxm_objects_query(look, NULL);
    list_unknown(ret_report);
    if (!nxm_route_coverage())
        return;
    list_known();
    ret_report->coverage = &coverage;
}

bool nxm_coverage_is_due(void)
{
    if (!nxm_route_coverage())
        return false;
    nxm_objects_query(look, NULL);
    for (unsigned api = 1; api < NXM_API_COUNT; api++) {
        if (nxm_names_is_hooked((enum nxm_api)api))
            return true;
    }
    for (size_t i = 0; i < PASSED_MAX; i++) {
        if (passed_defined[i])
            return true;
    }
    return defined[0];
}
