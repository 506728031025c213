#include "eh_frame.h"

#include <stddef.h>

/* DWARF's encodings of pointers: how many bytes, and what is added. */
#define ENCODING_OMIT 0xFF
#define ENCODING_INDIRECT 0x80
#define FORM_MASK 0x0F
#define BASE_MASK 0x70
#define BASE_PC 0x10
#define BASE_DATA 0x30
#define TABLE_ENCODING 0x3B /* 4 signed bytes from the header's start: what linkers write */

#define ROW_BYTES 8 /* of the header's table: where the code starts, where its entry is */

static bool read_form(struct nxm_bytes *bytes, unsigned form, uint64_t *ret_value)
{
    switch (form) {
    case 0x00: /* absolute: an address's size */
    case 0x04:
    case 0x0C:
        *ret_value = nxm_bytes_unsigned(bytes, 8);
        break;
    case 0x01:
        *ret_value = nxm_bytes_uleb(bytes);
        break;
    case 0x02:
        *ret_value = nxm_bytes_unsigned(bytes, 2);
        break;
    case 0x03:
        *ret_value = nxm_bytes_unsigned(bytes, 4);
        break;
    case 0x09:
        *ret_value = (uint64_t)nxm_bytes_sleb(bytes);
        break;
    case 0x0A:
        *ret_value = (uint64_t)nxm_bytes_signed(bytes, 2);
        break;
    case 0x0B:
        *ret_value = (uint64_t)nxm_bytes_signed(bytes, 4);
        break;
    default:
        return false;
    }
    return !bytes->cut;
}

static bool read_pointer(struct nxm_bytes *bytes, unsigned encoding, uint64_t header, uint64_t *ret_value)
{
    uint64_t base = (uintptr_t)bytes->at, value;

    if ((encoding & BASE_MASK) == BASE_DATA)
        base = header;
    else if ((encoding & BASE_MASK) == 0)
        base = 0;
    else if ((encoding & BASE_MASK) != BASE_PC)
        return false;
    if (encoding & ENCODING_INDIRECT || !read_form(bytes, encoding & FORM_MASK, &value))
        return false;
    *ret_value = base + value;
    return true;
}

/* --- the header's table ----------------------------------------------------------------------------------- */

struct table {
    const uint8_t *rows;
    uint64_t count;
    uint64_t header;
};

static bool find_table(const struct nxm_eh_frame *tables, struct table *ret_table)
{
    struct nxm_bytes header = { tables->header, tables->end, false };
    uint64_t frames;

    if (tables->header < tables->start || tables->header >= tables->end)
        return false;
    unsigned version = (unsigned)nxm_bytes_unsigned(&header, 1);
    unsigned frames_encoding = (unsigned)nxm_bytes_unsigned(&header, 1);
    unsigned count_encoding = (unsigned)nxm_bytes_unsigned(&header, 1);
    unsigned table_encoding = (unsigned)nxm_bytes_unsigned(&header, 1);
    ret_table->header = (uintptr_t)tables->header;
    if (version != 1 || count_encoding == ENCODING_OMIT || table_encoding != TABLE_ENCODING ||
        !read_pointer(&header, frames_encoding, ret_table->header, &frames) ||
        !read_pointer(&header, count_encoding, ret_table->header, &ret_table->count))
        return false;
    ret_table->rows = header.at;
    return ret_table->count <= nxm_bytes_left(&header) / ROW_BYTES;
}

static uint64_t row_value(const struct table *table, uint64_t row, unsigned column)
{
    int32_t offset;

    memcpy(&offset, table->rows + row * ROW_BYTES + column * sizeof offset, sizeof offset);
    return table->header + (uint64_t)(int64_t)offset;
}

/* The last row that starts at the address or before. */
static bool find_row(const struct table *table, uint64_t address, uint64_t *ret_entry)
{
    uint64_t low = 0, high = table->count; /* below low: at the address or before; from high on: behind */

    while (low < high) {
        uint64_t middle = low + (high - low) / 2;

        if (row_value(table, middle, 0) <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return false;
    *ret_entry = row_value(table, low - 1, 1);
    return true;
}

/* --- entries ---------------------------------------------------------------------------------------------- */

/* What the entry at `address` holds behind its length. */
static bool open_entry(const struct nxm_eh_frame *tables, uint64_t address, struct nxm_bytes *ret_entry)
{
    uint64_t offset = address - (uintptr_t)tables->start;
    struct nxm_bytes bytes = { tables->start, tables->end, false };

    if (offset > nxm_bytes_left(&bytes))
        return false;
    bytes.at += offset;
    uint64_t length = nxm_bytes_unsigned(&bytes, 4);
    if (length == 0xFFFFFFFF)
        length = nxm_bytes_unsigned(&bytes, 8);
    *ret_entry = nxm_bytes_take(&bytes, length);
    return !bytes.cut && length != 0;
}

struct common {
    struct nxm_fde *fde;
    unsigned encoding; /* of the entries' addresses */
    bool augmented;    /* the entries have a length and data of their own too */
};

/* The letters behind the z say what the data holds, in their order. */
static bool read_augmentation(struct nxm_bytes *letters, struct nxm_bytes data, struct common *common)
{
    uint64_t unused;
    unsigned letter;

    while ((letter = (unsigned)nxm_bytes_unsigned(letters, 1)) != '\0') {
        switch (letter) {
        case 'R':
            common->encoding = (unsigned)nxm_bytes_unsigned(&data, 1);
            break;
        case 'L':
            nxm_bytes_unsigned(&data, 1);
            break;
        case 'P': { /* the personality's address, mostly indirect: only stepped over */
            unsigned encoding = (unsigned)nxm_bytes_unsigned(&data, 1);
            if (!read_form(&data, encoding & FORM_MASK, &unused))
                return false;
            break;
        }
        case 'S':
            common->fde->signal = true;
            break;
        case 'B': /* signed with the other key; stripped alike */
        case 'G':
            break;
        default:
            return false;
        }
    }
    return !data.cut && !letters->cut;
}

static bool read_common(const struct nxm_eh_frame *tables, uint64_t address, struct common *common)
{
    struct nxm_fde *fde = common->fde;
    struct nxm_bytes entry;

    if (!open_entry(tables, address, &entry) || nxm_bytes_unsigned(&entry, 4) != 0)
        return false;
    uint64_t version = nxm_bytes_unsigned(&entry, 1);
    if (version != 1 && version != 3)
        return false;
    struct nxm_bytes letters = entry;
    while (nxm_bytes_unsigned(&entry, 1) != '\0') {
    }
    fde->code_unit = nxm_bytes_uleb(&entry);
    fde->data_unit = nxm_bytes_sleb(&entry);
    fde->ra_register = version == 1 ? nxm_bytes_unsigned(&entry, 1) : nxm_bytes_uleb(&entry);
    common->augmented = letters.at < letters.end && *letters.at == 'z';
    if (common->augmented) {
        uint64_t size = nxm_bytes_uleb(&entry);

        letters.at++;
        if (!read_augmentation(&letters, nxm_bytes_take(&entry, size), common))
            return false;
    } else if (nxm_bytes_unsigned(&letters, 1) != '\0') {
        return false; /* what it means nobody knows */
    }
    fde->common = entry;
    return !entry.cut;
}

static bool read_entry(const struct nxm_eh_frame *tables, uint64_t address, struct nxm_fde *fde)
{
    struct common common = { fde, 0, false };
    struct nxm_bytes entry;

    if (!open_entry(tables, address, &entry))
        return false;
    uint64_t here = (uintptr_t)entry.at, back = nxm_bytes_unsigned(&entry, 4);
    if (!read_common(tables, here - back, &common)) /* a common part itself has 0 there, and no length */
        return false;
    if (!read_pointer(&entry, common.encoding, (uintptr_t)tables->header, &fde->start) ||
        !read_form(&entry, common.encoding & FORM_MASK, &fde->length))
        return false;
    if (common.augmented) {
        uint64_t size = nxm_bytes_uleb(&entry);
        nxm_bytes_take(&entry, size);
    }
    fde->program = entry;
    return !entry.cut;
}

enum nxm_fde_result nxm_fde_find(const struct nxm_eh_frame *tables, uint64_t address, struct nxm_fde *ret_fde)
{
    struct nxm_fde fde = { 0 };
    struct table table;
    uint64_t entry;

    if (tables->header == NULL)
        return NXM_FDE_NONE;
    if (!find_table(tables, &table))
        return NXM_FDE_STRANGE;
    if (!find_row(&table, address, &entry))
        return NXM_FDE_NONE;
    if (!read_entry(tables, entry, &fde))
        return NXM_FDE_STRANGE;
    if (address - fde.start >= fde.length)
        return NXM_FDE_NONE;
    *ret_fde = fde;
    return NXM_FDE_FOUND;
}
