#include "page.h"

#include <string.h>

#include "mem.h"

/* Whole lines go, the one that is being made stays, unless it alone fills the page. */
static void make_room(struct nxm_text *text)
{
    struct nxm_page *page = (struct nxm_page *)text; /* of which it is the first member */
    const char *last = memrchr(text->buffer, '\n', text->length);
    size_t count = last == NULL ? text->length : (size_t)(last + 1 - text->buffer);

    nxm_output_put(&page->output, text->buffer, count);
    text->length -= count;
    memmove(text->buffer, text->buffer + count, text->length + 1);
}

void nxm_page_init(struct nxm_page *page, int fd)
{
    nxm_output_init(&page->output, fd);
    page->mapped = nxm_mem_map(NXM_PAGE_BYTES);
    if (page->mapped != NULL)
        nxm_text_init(&page->text, page->mapped, NXM_PAGE_BYTES);
    else
        nxm_text_init(&page->text, page->small, sizeof page->small);
    page->text.make_room = make_room;
}

void nxm_page_printf(struct nxm_page *page, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    nxm_text_vprintf(&page->text, format, arguments);
    va_end(arguments);
}

void nxm_page_bytes(struct nxm_page *page, uint64_t bytes)
{
    nxm_text_bytes(&page->text, bytes);
}

void nxm_page_json(struct nxm_page *page, const char *s)
{
    if (s == NULL) {
        nxm_text_string(&page->text, "null");
        return;
    }
    nxm_text_string(&page->text, "\"");
    nxm_text_json(&page->text, s);
    nxm_text_string(&page->text, "\"");
}

int nxm_page_clear(struct nxm_page *page)
{
    nxm_output_put(&page->output, page->text.buffer, page->text.length);
    nxm_mem_unmap(page->mapped, NXM_PAGE_BYTES);
    return nxm_output_clear(&page->output);
}
