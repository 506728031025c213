#include "page.h"

#include <stdbool.h>
#include <string.h>

#include "mem.h"
#include "output.h"
#include "result.h"

#define FIRST_BYTES (64u << 10)

void nxm_page_init(struct nxm_page *page, int fd)
{
    page->fd = fd;
    page->result = NXM_OK;
    page->mapped_bytes = FIRST_BYTES;
    page->mapped = nxm_mem_map(FIRST_BYTES);
    if (page->mapped != NULL)
        nxm_text_init(&page->text, page->mapped, page->mapped_bytes);
    else
        nxm_text_init(&page->text, page->small, sizeof page->small);
}

static void flush(struct nxm_page *page)
{
    if (page->text.length > 0 && page->result == NXM_OK)
        page->result = nxm_output_write(page->fd, page->text.buffer, page->text.length);
    nxm_text_init(&page->text, page->text.buffer, page->text.capacity);
}

/* Twice the room, with what is there; without memory the same room, emptied. */
static void make_room(struct nxm_page *page)
{
    size_t bytes = page->mapped_bytes * 2, length = page->text.length;
    char *larger = page->mapped == NULL ? NULL : nxm_mem_map(bytes);

    if (larger == NULL) {
        flush(page);
        return;
    }
    nxm_text_init(&page->text, larger, bytes);
    memcpy(larger, page->mapped, length);
    page->text.length = length;
    nxm_mem_unmap(page->mapped, page->mapped_bytes);
    page->mapped = larger;
    page->mapped_bytes = bytes;
}

/* A full buffer means that the last piece was cut: it is taken back and made again where there is room. */
static bool was_cut(struct nxm_page *page, size_t mark)
{
    if (page->text.length < page->text.capacity - 1 || mark == 0)
        return false;
    page->text.length = mark;
    make_room(page);
    return true;
}

void nxm_page_printf(struct nxm_page *page, const char *format, ...)
{
    size_t mark;

    do {
        va_list arguments;

        mark = page->text.length;
        va_start(arguments, format);
        nxm_text_vprintf(&page->text, format, arguments);
        va_end(arguments);
    } while (was_cut(page, mark));
}

void nxm_page_bytes(struct nxm_page *page, uint64_t bytes)
{
    char buffer[32];
    struct nxm_text text;

    nxm_text_init(&text, buffer, sizeof buffer);
    nxm_text_bytes(&text, bytes);
    nxm_page_printf(page, "%s", buffer);
}

void nxm_page_json(struct nxm_page *page, const char *s)
{
    size_t most = s == NULL ? 4 : strlen(s) * 6 + 2; /* each byte may become \u0000 */

    while (page->text.length > 0 && most > page->text.capacity - 1 - page->text.length)
        make_room(page);
    if (s == NULL) {
        nxm_page_printf(page, "null");
        return;
    }
    nxm_page_printf(page, "\"");
    nxm_text_json(&page->text, s);
    nxm_page_printf(page, "\"");
}

int nxm_page_clear(struct nxm_page *page)
{
    flush(page);
    nxm_mem_unmap(page->mapped, page->mapped_bytes);
    return page->result;
}
