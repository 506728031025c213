#include "supply.h"

#include "mem.h"
#include "populate.h"

/* A call for more pages is some microseconds; pieces below 2 MiB are never made one huge page, which takes a hundred. */
#define FIRST_PIECE ((size_t)64 << 10)
#define PIECE ((size_t)512 << 10)
#define STEP ((size_t)16 << 10) /* touched at once; pieces that are cut up are so many steps */
#define FEW STEP                /* when less stands ready */

struct nxm_piece {
    struct nxm_piece *next;
    size_t bytes;
    char rest[16];
};

static size_t rounded(size_t bytes)
{
    return (bytes + 31) & ~(size_t)31;
}

static size_t left_in(const struct nxm_stock *stock)
{
    return (size_t)(stock->end - stock->at);
}

static size_t size_of_next(const struct nxm_supply *supply)
{
    return supply->pieces == NULL ? FIRST_PIECE : PIECE;
}

static void keep(struct nxm_supply *supply, struct nxm_piece *piece, size_t bytes)
{
    piece->bytes = bytes;
    piece->next = supply->pieces;
    supply->pieces = piece;
}

/* A piece of its own. */
static void *cut_large(struct nxm_supply *supply, size_t bytes)
{
    struct nxm_piece *piece = nxm_mem_map_kept(sizeof *piece + bytes);

    if (piece == NULL)
        return NULL;
    keep(supply, piece, sizeof *piece + bytes);
    return piece + 1;
}

/* It is not written to before it is used, which would be a fault. */
static bool map_next(struct nxm_supply *supply)
{
    size_t size = size_of_next(supply);
    char *at = nxm_mem_map_kept(size);

    if (at == NULL)
        return false;
    supply->next = (struct nxm_stock){ at, at, at + size };
    return true;
}

static void use_next(struct nxm_supply *supply)
{
    struct nxm_piece *piece = (void *)supply->next.at;

    keep(supply, piece, left_in(&supply->next));
    supply->now = supply->next;
    supply->now.at += sizeof *piece;
    supply->next = (struct nxm_stock){ 0 };
}

static void *cut(struct nxm_supply *supply, size_t bytes)
{
    char *at;

    if (left_in(&supply->now) < bytes) {
        if (bytes > size_of_next(supply) / 4) /* what is left of the latest piece stays for smaller ones */
            return cut_large(supply, bytes);
        if (supply->next.at == NULL && !map_next(supply))
            return NULL;
        use_next(supply);
    }
    at = supply->now.at;
    supply->now.at += bytes;
    return at;
}

static void step(struct nxm_stock *stock)
{
    nxm_populate(stock->ready, STEP);
    stock->ready += STEP;
}

/* One call at a time. */
void nxm_supply_make_ready(struct nxm_supply *supply)
{
    struct nxm_stock *now = &supply->now, *next = &supply->next;

    nxm_spin_acquire(&supply->lock, NXM_RANK_SUPPLY);
    if (now->ready - now->at + (next->ready - next->at) < (ptrdiff_t)FEW) {
        if (now->ready != now->end)
            step(now);
        else if (next->at != NULL)
            step(next);
        else
            map_next(supply); /* or not: who needs it tries again */
    }
    nxm_spin_release(&supply->lock);
}

void *nxm_supply_take(struct nxm_supply *supply, size_t bytes)
{
    void *memory;

    nxm_spin_acquire(&supply->lock, NXM_RANK_SUPPLY);
    memory = cut(supply, rounded(bytes));
    nxm_spin_release(&supply->lock);
    return memory;
}

static unsigned kind_of(uint64_t length)
{
    return (unsigned)__builtin_ctzll(length);
}

struct nxm_chains *nxm_supply_chains(struct nxm_supply *supply, uint64_t length)
{
    struct nxm_chains **spare = &supply->spare[kind_of(length)], *chains;

    nxm_spin_acquire(&supply->lock, NXM_RANK_SUPPLY);
    chains = *spare;
    if (chains != NULL)
        *spare = chains->next;
    else if ((chains = cut(supply, rounded(sizeof *chains + length * sizeof *chains->heads))) != NULL)
        chains->length = length;
    nxm_spin_release(&supply->lock);
    return chains;
}

void nxm_supply_give(struct nxm_supply *supply, struct nxm_chains *chains)
{
    struct nxm_chains **spare = &supply->spare[kind_of(chains->length)];

    nxm_spin_acquire(&supply->lock, NXM_RANK_SUPPLY);
    chains->next = *spare;
    *spare = chains;
    nxm_spin_release(&supply->lock);
}

void nxm_supply_clear(struct nxm_supply *supply)
{
    while (supply->pieces != NULL) {
        struct nxm_piece *piece = supply->pieces;

        supply->pieces = piece->next;
        nxm_mem_unmap(piece, piece->bytes);
    }
    nxm_mem_unmap(supply->next.at, left_in(&supply->next));
    *supply = (struct nxm_supply){ 0 };
}
