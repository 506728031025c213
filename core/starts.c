#include "starts.h"

#include "mem.h"
#include "result.h"

#define READ(from) __atomic_load_n(&(from), __ATOMIC_ACQUIRE)
#define WRITE(to, value) __atomic_store_n(&(to), (value), __ATOMIC_RELEASE)

int nxm_starts_init(struct nxm_starts *starts)
{
    starts->leaves = nxm_mem_map(NXM_LEAVES * sizeof *starts->leaves);
    return starts->leaves == NULL ? NXM_ENOMEM : NXM_OK;
}

void nxm_starts_clear_all(struct nxm_starts *starts)
{
    for (unsigned i = 0; i < NXM_LEAVES && starts->leaves != NULL; i++) {
        if ((starts->present[i / 64] >> i % 64 & 1) != 0)
            nxm_mem_unmap(starts->leaves[i], sizeof **starts->leaves);
    }
    nxm_mem_unmap(starts->leaves, NXM_LEAVES * sizeof *starts->leaves);
    starts->leaves = NULL;
}

static struct nxm_leaf *leaf_for(struct nxm_starts *starts, uint64_t address)
{
    uint64_t number = address >> NXM_LEAF_BITS;
    struct nxm_leaf *leaf = READ(starts->leaves[number]);

    if (leaf != NULL)
        return leaf;
    nxm_spin_acquire(&starts->lock, NXM_RANK_STARTS);
    leaf = starts->leaves[number];
    if (leaf == NULL && (leaf = nxm_mem_map(sizeof *leaf)) != NULL) {
        nxm_populate(leaf, offsetof(struct nxm_leaf, words));
        WRITE(starts->leaves[number], leaf);
        WRITE(starts->present[number / 64], starts->present[number / 64] | UINT64_C(1) << number % 64);
    }
    nxm_spin_release(&starts->lock);
    return leaf;
}

static void set(uint64_t *bits, uint64_t bit)
{
    WRITE(*bits, *bits | UINT64_C(1) << bit % 64);
}

static void unset(uint64_t *bits, uint64_t bit)
{
    WRITE(*bits, *bits & ~(UINT64_C(1) << bit % 64));
}

static void raise_to(uint64_t *last, uint64_t to)
{
    if (*last < to)
        WRITE(*last, to);
}

static bool has_page(const struct nxm_leaf *leaf, uint32_t page)
{
    return (READ(leaf->pages[page / 64]) >> page % 64 & 1) != 0;
}

/* The next page of regions: not to be new together with one of words. */
static void look_ahead(const struct nxm_leaf *leaf, uint32_t in_leaf)
{
    uint32_t half_a_page_on = (in_leaf >> NXM_REGION_BITS) + NXM_POPULATE_PAGE / sizeof *leaf->region / 2;

    if (half_a_page_on < NXM_REGIONS)
        (void)READ(leaf->region[half_a_page_on].bits);
}

int nxm_starts_mark(struct nxm_starts *starts, uint64_t address, uint64_t last)
{
    struct nxm_leaf *leaf = leaf_for(starts, address);
    uint32_t in_leaf = (uint32_t)address;
    struct nxm_stretch *region, *word;
    uint32_t page;

    if (leaf == NULL)
        return NXM_ENOMEM;
    region = &leaf->region[in_leaf >> NXM_REGION_BITS];
    word = &leaf->words[in_leaf >> NXM_WORD_BITS];
    page = (in_leaf >> NXM_WORD_BITS) / NXM_WORDS_OF_PAGE;
    if (!has_page(leaf, page))
        nxm_populate(&leaf->words[page * NXM_WORDS_OF_PAGE], NXM_POPULATE_PAGE);
    else if (nxm_starts_has(word, address, last))
        return NXM_OK;
    else
        look_ahead(leaf, in_leaf);
    nxm_spin_acquire(&leaf->lock, NXM_RANK_STARTS);
    raise_to(&leaf->last, last);
    raise_to(&region->last, last);
    raise_to(&word->last, last);
    set(&leaf->regions[in_leaf >> NXM_REGION_BITS >> 6], in_leaf >> NXM_REGION_BITS);
    set(&region->bits, in_leaf >> NXM_WORD_BITS);
    set(&word->bits, in_leaf >> NXM_GRANULE_BITS);
    set(&leaf->pages[page / 64], page);
    nxm_spin_release(&leaf->lock);
    return NXM_OK;
}

static void clear(struct nxm_leaf *leaf, uint32_t in_leaf)
{
    struct nxm_stretch *region = &leaf->region[in_leaf >> NXM_REGION_BITS], *word = &leaf->words[in_leaf >> NXM_WORD_BITS];
    uint64_t any = 0;

    unset(&word->bits, in_leaf >> NXM_GRANULE_BITS);
    if (word->bits != 0)
        return;
    WRITE(word->last, 0);
    unset(&region->bits, in_leaf >> NXM_WORD_BITS);
    if (region->bits != 0)
        return;
    WRITE(region->last, 0);
    unset(&leaf->regions[in_leaf >> NXM_REGION_BITS >> 6], in_leaf >> NXM_REGION_BITS);
    for (unsigned i = 0; i < NXM_REGIONS / 64; i++)
        any |= leaf->regions[i];
    if (any == 0)
        WRITE(leaf->last, 0);
}

/* How far blocks reach is forgotten where there are none: nobody could have relied on it, whose bit would be there. */
void nxm_starts_clear(struct nxm_starts *starts, uint64_t granule)
{
    struct nxm_leaf *leaf = READ(starts->leaves[granule >> (NXM_LEAF_BITS - NXM_GRANULE_BITS)]);

    nxm_spin_acquire(&leaf->lock, NXM_RANK_STARTS);
    clear(leaf, (uint32_t)(granule << NXM_GRANULE_BITS));
    nxm_spin_release(&leaf->lock);
}

/* --- reading: bits may come and go meanwhile -------------------------------------------------------------------------- */

/* The last bit of `words` that is set, of those up to *at. */
static bool last_bit(const uint64_t *words, uint64_t *at)
{
    uint64_t i = *at / 64, word = READ(words[i]) & UINT64_MAX >> (63 - *at % 64);

    while (word == 0 && i > 0)
        word = READ(words[--i]);
    if (word == 0)
        return false;
    *at = i * 64 + 63 - (unsigned)__builtin_clzll(word);
    return true;
}

/* The same within a region, of granules counted from its start, where blocks may reach the address. */
static bool last_in_region(const struct nxm_stretch *region, const struct nxm_stretch *words, uint64_t address, uint64_t *granule)
{
    uint64_t number = *granule / 64, at = *granule % 64;

    for (;;) {
        uint64_t found = number;

        if (!last_bit(&region->bits, &found))
            return false;
        if (found != number)
            at = 63;
        number = found;
        if (READ(words[number].last) >= address && last_bit(&words[number].bits, &at)) {
            *granule = number * 64 + at;
            return true;
        }
        if (number-- == 0)
            return false;
        at = 63;
    }
}

#define GRANULES_OF_REGION (UINT64_C(1) << (NXM_REGION_BITS - NXM_GRANULE_BITS))
#define WORDS_OF_REGION (1u << (NXM_REGION_BITS - NXM_WORD_BITS))

static bool last_in_leaf(const struct nxm_leaf *leaf, uint64_t address, uint64_t *granule)
{
    uint64_t number = *granule / GRANULES_OF_REGION, at = *granule % GRANULES_OF_REGION;

    if (READ(leaf->last) < address)
        return false;
    for (;;) {
        uint64_t found = number;

        if (!last_bit(leaf->regions, &found))
            return false;
        if (found != number)
            at = GRANULES_OF_REGION - 1;
        number = found;
        if (READ(leaf->region[number].last) >= address &&
            last_in_region(&leaf->region[number], &leaf->words[number * WORDS_OF_REGION], address, &at)) {
            *granule = number * GRANULES_OF_REGION + at;
            return true;
        }
        if (number-- == 0)
            return false;
        at = GRANULES_OF_REGION - 1;
    }
}

#define GRANULES_OF_LEAF (UINT64_C(1) << (NXM_LEAF_BITS - NXM_GRANULE_BITS))

bool nxm_starts_before(struct nxm_starts *starts, uint64_t address, uint64_t *granule)
{
    uint64_t number = *granule / GRANULES_OF_LEAF, at = *granule % GRANULES_OF_LEAF;

    for (;;) {
        uint64_t found = number;

        if (!last_bit(starts->present, &found))
            return false;
        if (found != number)
            at = GRANULES_OF_LEAF - 1;
        number = found;
        if (last_in_leaf(READ(starts->leaves[number]), address, &at)) {
            *granule = number * GRANULES_OF_LEAF + at;
            return true;
        }
        if (number-- == 0)
            return false;
        at = GRANULES_OF_LEAF - 1;
    }
}
