/* Names that the routes noted: entry points that this build does not know, files whose lookups nobody sees. Plain tables that only
 * grow, so that they can lie in a journal; who writes them is interpose/route_names.
 */
#ifndef NXM_NOTED_H
#define NXM_NOTED_H

#include <stdbool.h>
#include <stddef.h>

#define NXM_NOTED_MAX 64
#define NXM_NAME_BYTES 64
#define NXM_NOTED_TEXT (NXM_NAME_BYTES + 40)

struct nxm_noted {
    char text[NXM_NAME_BYTES]; /* cut when longer */
    int version;               /* of a form that has no symbol; 0: any */
    bool allocates;            /* by its looks */
    bool found;                /* known to be there; of a file: in a namespace of its own */
};

struct nxm_noted_table {
    struct nxm_noted list[NXM_NOTED_MAX];
    unsigned state[NXM_NOTED_MAX];
};
enum { NXM_NOTED_EMPTY = 0, NXM_NOTED_FILLING, NXM_NOTED_FULL };

/* A copy of what is whole at that place; false: nothing. */
bool nxm_noted_read(const struct nxm_noted_table *table, size_t index, struct nxm_noted *ret_noted);

/* As the report shows a name, and a file. */
void nxm_noted_name(const struct nxm_noted *noted, char ret_text[NXM_NOTED_TEXT]);
void nxm_noted_file(const struct nxm_noted *noted, char ret_text[NXM_NOTED_TEXT]);

#endif
